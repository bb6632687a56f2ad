# %% [markdown]
# # Your own ratings, from pandas or polars
#
# A data frame with the columns `user`, `item` and `rating` is enough. What must be said besides is what the scale allows:
# that is public knowledge, and it is never read off the data. You should see the same board from a frame of either
# library, and two mistakes refused in words.
#
# It needs `pip install '.[sim]'` in fedboard's checkout and, for frames, pandas or polars; without either, the cells take a table of
# pyarrow, which comes along.

# %%
import numpy as np

import fedboard

rng = np.random.default_rng(7)
n_ratings, n_people, n_shops = 24_000, 1_500, 120
taste = rng.normal(size=n_people), rng.normal(size=n_shops)
visits = np.unique(rng.integers(0, [n_people, n_shops], size=(n_ratings, 2)), axis=0)
stars = np.clip(
    np.round(
        3.4 + 0.5 * taste[1][visits[:, 1]] + rng.normal(scale=0.8, size=len(visits))
    ),
    1,
    5,
)
columns = {
    "user": [f"guest-{number}" for number in visits[:, 0]],
    "item": [f"tea-house-{number}" for number in visits[:, 1]],
    "rating": stars,
}
print(f"{len(stars)} ratings of {n_people} guests")

# %%
try:
    import pandas as frames

    told, make = "pandas", frames.DataFrame
except ImportError:
    try:
        import polars as frames

        told, make = "polars", frames.DataFrame
    except ImportError:
        import pyarrow as frames

        told, make = (
            "pyarrow (pip install pandas or polars for a frame)",
            frames.table,
        )

frame = make(columns)
print("a frame of", told)

# %%
settings = {
    "epsilon": 5.0,
    "rank": 2,
    "rounds": 2,
    "baselines": False,
    "report": False,
}
run = fedboard.simulate(data=frame, rating_range=(1, 5), out="runs/tea", **settings)
print(run.metrics)

# %% [markdown]
# Three arrays give the same board, to the bit: its digest is over all that was published.

# %%
arrays = (columns["user"], columns["item"], columns["rating"])
same = fedboard.simulate(
    data=arrays, rating_range=(1, 5), out="runs/same", **settings
)
print(run.board.digest)
assert run.board.digest == same.board.digest

# %% [markdown]
# ## Other names, titles, and a list of all items
#
# Columns called otherwise are named. Titles are public and come as a mapping. By default the catalogue is read off the
# ratings, so that the list of items itself tells that somebody rated each of them; the certificate says so. With
# `catalogue="listed"` it is the list of titles, which stands apart from the ratings: that is what private noise needs, and
# a run with such noise wants to hear it once more, from you.

# %%
renamed = make(
    {"who": columns["user"], "what": columns["item"], "how": columns["rating"]}
)
titles = {
    f"tea-house-{number}": f"Tea House No. {number}" for number in range(n_shops)
}
ratings = fedboard.load_ratings(
    renamed,
    columns={"user": "who", "item": "what", "rating": "how"},
    rating_range=(1, 5),
    titles=titles,
    catalogue="listed",
)
vouched = {"data": {"catalogue": "listed"}}  # I say that this list is public
private = fedboard.simulate(
    data=ratings, config=vouched, noise="secure", out="runs/private", **settings
)
print(private)
assert fedboard.verify("runs/private")  # holds, and nobody can reproduce the noise

# %%
for house in fedboard.recommend(
    {"Tea House No. 3": 5, "Tea House No. 40": 1}, private.board, k=3
):
    print(f"{house.score:.1f}  {house.title}")

# %% [markdown]
# ## What is refused
#
# A scale that was not named, and a rating off the scale:

# %% tags=["raises-exception"]
fedboard.simulate(data=frame, out="runs/no-scale", **settings)

# %% tags=["raises-exception"]
fedboard.simulate(
    data=(["ann", "bob"], ["tea", "tea"], [5.0, 11.0]),
    rating_range=(1, 5),
    out="runs/off",
    **settings,
)

# %% [markdown]
# From a file it is the same: `fedboard.simulate(data="ratings.csv", rating_range=(1, 5))`; see
# [Ratings in, splits out](../guide/data.md).
