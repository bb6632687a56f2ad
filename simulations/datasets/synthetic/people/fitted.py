"""Shapes that were fitted: aggregate statistics of public data sets, as whole numbers. Public.

``research/population.md`` holds the people that they make beside the data.
"""

from typing import Final

from fedboard.simulations.datasets.synthetic.people.shape import Shape

ML_1M: Final = Shape(
    activity=(
        *((0, 0), (3277, 84), (6554, 197), (16384, 676), (26214, 1407), (32768, 2139), (39322, 2984)),
        *((49152, 5292), (55706, 8135), (58982, 10696), (62259, 15087), (64225, 21511), (64881, 24925)),
        *((65208, 28845), (65405, 34900), (65503, 44194), (65536, 63699)),
    ),
    popularity=(
        *((0, 1048576), (40, 788768), (100, 598482), (200, 561989), (400, 443498), (655, 297616)),
        *((1311, 199332), (2294, 150917), (3277, 122355), (4915, 92090), (6554, 73424), (9830, 51597)),
        *((13107, 37612), (19661, 23224), (26214, 15049), (32768, 10065), (39322, 6233), (45875, 3722)),
        *((52429, 2227), (58982, 1023), (65536, 258)),
    ),
    item_spread=18860,
    popular_better=13741,
    person_spread=12904,
    active_lower=3837,
    taste_spreads=(169, 122, 120, 92, 92, 83, 79, 68, 72, 67, 57, 60, 53, 53, 56, 53),
    noise_spread=24000,
    cuts=(-24551, -11096, 6258, 26858),
    drawn_to=12000,
)
"""MovieLens 1M: 6 040 people, 3 449 films, 999 714 ratings."""
