# %% [markdown]
# # Attack your own run
#
# A proof says what holds if the code does what the proof says. So attack the code: plant people of whom you know everything
# but whether they are in, and guess it from the board. Nobody may guess better than the certificate allows. You should see
# an attack that works where there is little privacy, stays within the claim in both runs, and gives away a run that claims
# more than it keeps.
#
# This is a small cousin of `fedboard audit`, which attacks every step from the file of ratings to the last board.

# %%
import math

import numpy as np
from scipy.stats import norm

import fedboard

N_HONEST, N_ITEMS, N_CANARIES, OWN_ITEMS = 400, 40, 400, 4
rng = np.random.default_rng(11)

# %% [markdown]
# ## The canaries
#
# Each canary rates four items that nobody else rates: the strongest case for an attacker. A coin decides whether it is in.
# The list of items is public and the same either way.

# %%
honest = np.unique(rng.integers(0, [N_HONEST, N_ITEMS], size=(6_000, 2)), axis=0)
canary_items = N_ITEMS + np.arange(N_CANARIES * OWN_ITEMS).reshape(
    N_CANARIES, OWN_ITEMS
)
is_in = rng.random(N_CANARIES) < 0.5

users = [f"honest-{u}" for u in honest[:, 0]] + [
    f"canary-{c}" for c in np.flatnonzero(is_in) for _ in range(OWN_ITEMS)
]
items = [f"{i}" for i in honest[:, 1]] + [f"{i}" for i in canary_items[is_in].ravel()]
stars = [
    *rng.integers(1, 6, size=len(honest)).astype(float),
    *[5.0] * int(is_in.sum() * OWN_ITEMS),
]
titles = {f"{i}": f"Item {i}" for i in range(N_ITEMS + N_CANARIES * OWN_ITEMS)}
ratings = fedboard.load_ratings(
    (users, items, stars), rating_range=(1, 5), titles=titles, catalogue="listed"
)
print(f"{is_in.sum()} of {N_CANARIES} canaries are in, among {N_HONEST} others")

# %% [markdown]
# ## The attack
#
# Run it, read the board, and take as each canary's score the noisy counts of its four items. A canary that is in adds to them.


# %%
def attacked(epsilon, out):
    run = fedboard.simulate(
        data=ratings,
        config={"split": {"test": 0.02, "validation": 0.01}},
        epsilon=epsilon,
        rank=2,
        rounds=1,
        baselines=False,
        report=False,
        out=out,
    )
    place = {item: number for number, item in enumerate(run.board.catalogue.item_ids)}
    counts = run.board.arrays["item_counts"]
    scores = np.array(
        [sum(counts[place[str(item)]] for item in own) for own in canary_items]
    )
    return run, scores


strict, of_strict = attacked(5.0, "runs/strict")
loose, of_loose = attacked(200.0, "runs/loose")
for name, scores in (("epsilon 5", of_strict), ("epsilon 200", of_loose)):
    right = np.mean((scores > np.median(scores)) == is_in)
    print(f"{name:12} the attacker is right about {right:.0%} of the canaries")

# %% [markdown]
# ## Against the claim
#
# A claim of mu says: telling who is in is at most as easy as telling N(mu, 1) from N(0, 1), whatever the attacker does. The
# scores say how easy it was: the difference of the two means over the deviation, less what chance may add (95 %).


# %%
def lower_bound(scores):
    ins, outs = scores[is_in], scores[~is_in]
    deviation = math.sqrt(
        (ins.var(ddof=1) * (len(ins) - 1) + outs.var(ddof=1) * (len(outs) - 1))
        / (len(scores) - 2)
    )
    found = (ins.mean() - outs.mean()) / deviation
    chance = math.sqrt(1 / len(ins) + 1 / len(outs) + found**2 / (2 * len(scores)))
    return max(0.0, found - norm.ppf(0.95) * chance)


claims = {
    "epsilon 5": strict.certificate.composition.mu,
    "epsilon 200": loose.certificate.composition.mu,
}
for name, scores in (("epsilon 5", of_strict), ("epsilon 200", of_loose)):
    print(
        f"{name:12} mu of at least {lower_bound(scores):.2f} was seen, {claims[name]:.2f} is claimed"
    )
    assert lower_bound(scores) <= claims[name]

# %% [markdown]
# The bound is below the claim, as it must be, and not close to it: these scores look at one release of several, the counts.
# `fedboard audit` looks at all of them along the direction in which each canary moves them, and comes within about a
# tenth of the claimed epsilon.
#
# ## Would it notice?
#
# An attack that never finds anything shows nothing. So let a run lie: it claims epsilon 5 and has the noise of epsilon 200.

# %%
seen, claimed = lower_bound(of_loose), claims["epsilon 5"]
print(
    f"mu of at least {seen:.2f} was seen, {claimed:.2f} would be claimed: {'CAUGHT' if seen > claimed else 'missed'}"
)
assert seen > claimed

# %% [markdown]
# The verifier notices too, without any attack: the noise that a certificate lists follows from its claim.

# %%
import dataclasses

lie = dataclasses.replace(loose.certificate, claim=strict.certificate.claim)
assert not lie.holds
print([finding.check for finding in lie.verify() if not finding.passed])

# %% [markdown]
# **Next:** the real one, about a minute: `fedboard audit --epsilon 1`. [The audit](../guide/audit.md) explains its five
# attacks, and how it is tested on runs that are broken on purpose.
