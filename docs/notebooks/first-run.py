# %% [markdown]
# # A first run
#
# In two minutes: train a recommender privately on made-up people, look at what was promised, recommend to one person,
# and check the promise. You should see a test error near 0.93 stars, a list of films, and a check that passes.
#
# It needs `pip install '.[sim]'` in fedboard's checkout.

# %%
import fedboard

run = fedboard.simulate(
    data={
        "synthetic": {"n_users": 2000, "n_items": 300}
    },  # 2 000 made-up people, 300 films that were never made
    algorithm="residual",
    epsilon=5.0,
    rank=4,
    rounds=3,
    baselines=False,
    out="runs/first",
)
run

# %% [markdown]
# The table shows public facts alone. **NOT PRIVATE** is meant: the noise of this run follows from a seed, so that it can
# be repeated bit for bit. A run that protects people takes `noise="secure"`, and its table says so.
#
# How good is it? Metrics on held-out ratings are there for whoever asks. They are computed on people's ratings, so they
# are not private and exist in simulations only.

# %%
print({name: round(value, 3) for name, value in run.metrics.items()})

# %% [markdown]
# ## What one person gets
#
# The *board* is everything that was published. A device combines it with its own ratings; nothing leaves the process.

# %%
board = fedboard.load_board("runs/first")
titles = board.catalogue.titles
mine = {titles[0]: 5.0, titles[7]: 1.0, titles[12]: 4.0}
for title, stars in mine.items():
    print(f"I gave {stars:.0f} to {title}")

# %%
for film in fedboard.recommend(mine, board, k=5):
    print(f"{film.score:.1f}  {film.title}")

# %% [markdown]
# Why the first one? The prediction is a sum: what the board says to somebody without ratings, and what each rating adds.

# %%
best = fedboard.recommend(mine, board, k=1)[0]
why = fedboard.explain(best.item_id, mine, board)
print(f"{why.base:+.2f}  what the board alone says of {why.title}")
for part in why.influences:
    print(f"{part.added:+.2f}  because I gave {part.rating:.0f} to {part.title}")
print(f"{why.total:+.2f}  in all")
assert abs(why.base + sum(part.added for part in why.influences) - why.total) < 1e-6

# %% [markdown]
# ## What was promised
#
# Every release is in a ledger, every board carries a certificate, and every number of it can be recomputed.

# %%
print(run.certificate.promise)
checked = fedboard.verify("runs/first")
print(checked)

# %% [markdown]
# `holds` is whether all checks passed. The object itself is true only if, beyond that, nobody can reproduce the noise:
# a simulation never passes for a private release.

# %%
assert checked.holds
assert not checked
print("what it cost:", round(fedboard.epsilon("runs/first"), 3))

# %% [markdown]
# **Next:** [your own ratings](own-data.py); [what the numbers of a certificate are made of](epsilon-by-hand.py).
