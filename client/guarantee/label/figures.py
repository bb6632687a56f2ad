"""A hundred little figures: how many of a hundred bets are right, told without colour."""

from fedboard.client.guarantee.label.odds_words import COIN

COLUMNS, WIDTH, HEIGHT = 20, 16, 22
WIDE, TALL = COLUMNS * WIDTH, 100 // COLUMNS * HEIGHT
"""Of all of them together."""
_BODY = "M2.5 19v-4.2a4.3 4.3 0 0 1 4.3-4.3h2.4a4.3 4.3 0 0 1 4.3 4.3V19z"


def figures(right: int) -> str:
    """SVG of ``WIDE`` by ``TALL`` units: outlined right by a coin, filled right beyond that, pale wrong."""
    return "".join(_figure(n, "coin" if n < COIN else "more" if n < right else "wrong") for n in range(100))


def _figure(n: int, kind: str) -> str:
    x, y = (n % COLUMNS) * WIDTH, (n // COLUMNS) * HEIGHT
    shape = f'<circle cx="8" cy="5" r="3.6"/><path d="{_BODY}"/>'
    return f'<g class="{kind}" transform="translate({x} {y})">{shape}</g>'
