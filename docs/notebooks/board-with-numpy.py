# %% [markdown]
# # A board, opened with nothing but NumPy
#
# The board is one file that anybody may read. Here is all that a reader needs, in a few lines of Python's own library
# and NumPy: the arrays, the digest that the certificate names, and one person's recommendations. You should see the same
# list as fedboard gives, without fedboard having read anything. fedboard is used twice: to make a board, and to compare.

# %%
import fedboard

run = fedboard.simulate(
    data={"synthetic": {"n_users": 1500, "n_items": 200}},
    epsilon=5.0,
    rank=3,
    rounds=2,
    baselines=False,
    report=False,
    out="runs/board",
)

# %% [markdown]
# ## The file
#
# The layout is that of *safetensors*: eight bytes with the length of a header, the header in JSON, then the arrays as they
# lie in memory.

# %%
import json
from pathlib import Path

import numpy as np

file = sorted(Path("runs/board/boards").glob("*.board"))[-1]
content = file.read_bytes()
length = int.from_bytes(content[:8], "little")
header = json.loads(content[8 : 8 + length])
metadata = header.pop("__metadata__")
kinds = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1"}
stored = {}
for name, entry in header.items():
    first, last = entry["data_offsets"]
    of_it = content[8 + length + first : 8 + length + last]
    stored[name] = np.frombuffer(of_it, dtype=kinds[entry["dtype"]]).reshape(
        entry["shape"]
    )
for name, values in stored.items():
    print(f"{name:24} {values.dtype!s:8} {values.shape}")

# %% [markdown]
# Titles are JSON in an array of bytes. The rest is a description: the task that made the board, its public settings, the
# certificate.

# %%
described = json.loads(metadata["fedboard"])
titles = json.loads(stored["catalogue/titles"].tobytes())
certificate = described.pop("certificate")
print(
    described["task"], "version", described["version"], "with", len(titles), "titles"
)
print(certificate["statements"][0])

# %% [markdown]
# ## Is it the board that was promised?
#
# The certificate names the SHA-256 over the description and all arrays, in the order of their names. Whoever changes one
# number changes it.

# %%
import hashlib


def canonical(value):
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()


digest = hashlib.sha256(canonical(described))
for name in sorted(header):
    digest.update(canonical([name, header[name]["dtype"], header[name]["shape"]]))
    digest.update(stored[name].tobytes())
print(digest.hexdigest())
assert digest.hexdigest() == certificate["board_digest"]

# %% [markdown]
# ## One person's model
#
# Item i has a bias `b_i` and a vector `u_i`. A person has a bias c and a vector v of their own, which their device finds by
# ridge regression on their ratings:
#
#     min  sum_i (y_i - mean - b_i - c - <u_i, v>)^2 + lambda n^e ( 3 c^2 / lambda + |v|^2 )
#
# with n ratings; lambda is on the board, the exponent e and the 3 are in its settings.

# %%
settings = described["config"]
arrays = {name.removeprefix("array/"): values for name, values in stored.items()}
rated = {titles[0]: 5.0, titles[7]: 1.0, titles[12]: 4.0, titles[30]: 2.0}

own = np.array([titles.index(title) for title in rated])
stars = np.array(list(rated.values()))
base = arrays["mean"][0] + arrays["item_biases"].astype(float)
strength = arrays["user_ridge"][0]
constant = np.full(len(base), np.sqrt(strength / settings["user_bias_ridge"]))
vectors = np.column_stack([constant, arrays["item_factors"]])
ridge = strength * len(own) ** settings["user_ridge_exponent"]

system = vectors[own].T @ vectors[own] + ridge * np.eye(vectors.shape[1])
model = np.linalg.solve(system, vectors[own].T @ (stars - base[own]))
scores = base + vectors @ model
print("my model, which stays with me:", model.round(3))

# %%
open_to_me = arrays["learnt"].astype(bool)
open_to_me[own] = False
order = np.argsort(-np.where(open_to_me, scores, -np.inf))[:5]
predicted = np.clip(scores, settings["rating_low"], settings["rating_high"])
for item in order:
    print(f"{predicted[item]:.3f}  {titles[item]}")

# %% [markdown]
# ## The same from fedboard

# %%
theirs = fedboard.recommend(rated, "runs/board", k=5)
for film in theirs:
    print(f"{film.score:.3f}  {film.title}")
assert [film.title for film in theirs] == [titles[item] for item in order]
assert np.allclose([film.score for film in theirs], predicted[order], atol=1e-4)

# %% [markdown]
# And where somebody changes the board on its way, fedboard says so:

# %%
changed = bytearray(content)
changed[-200] ^= 1
Path("changed.board").write_bytes(changed)
print([finding.check for finding in fedboard.verify("changed.board").failed])
assert not fedboard.verify("changed.board").holds
assert fedboard.verify(file).holds

# %% [markdown]
# What a reader in another language needs besides, signatures and boards that are rounded, is in
# [the board service](../guide/boards.md); [the board page](../guide/boards.md#the-board-page) is such a reader, in JavaScript.
