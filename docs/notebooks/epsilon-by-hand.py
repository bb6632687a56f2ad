# %% [markdown]
# # Epsilon, recomputed by hand
#
# A certificate claims an epsilon. Here it is computed again from the list of releases with nothing of fedboard's: first
# with `scipy`, in closed form, then with Google's `dp-accounting`, which knows nothing of closed forms. You should see
# three times the same number.
#
# It needs `pip install '.[sim]'` in fedboard's checkout.

# %%
import json
import math
from pathlib import Path

import fedboard

run = fedboard.simulate(
    data={"synthetic": {"n_users": 500, "n_items": 60, "mean_ratings_per_user": 15}},
    epsilon=2.0,
    rank=2,
    rounds=2,
    baselines=False,
    report=False,
    out="runs/claimed",
)
certificate = json.loads(Path("runs/claimed/certificate.json").read_text())
claim = certificate["claim"]
print(claim)

# %% [markdown]
# ## What was released
#
# Each release is a sum with Gaussian noise. Its *noise multiplier* z is the deviation of the noise over the sensitivity,
# the most that one user can change the sum by.

# %%
for release in certificate["releases"]:
    sensitivity = (
        release["l2_sensitivity"] * release["grid_step"]
    )  # contributions are whole numbers on a public grid
    print(
        f"{release['name']:18} sensitivity {sensitivity:7.4f}  z {release['noise_multiplier']:8.4f}"
    )
z = [release["noise_multiplier"] for release in certificate["releases"]]

# %% [markdown]
# z, sensitivity and noise are three numbers in the certificate, and must agree:

# %%
for release in certificate["releases"]:
    assert math.isclose(
        release["noise_stddev"] / release["l2_sensitivity"],
        release["noise_multiplier"],
        rel_tol=1e-9,
    )

# %% [markdown]
# ## With scipy
#
# One Gaussian release with multiplier z is exactly (1/z)-GDP: telling two neighbouring data sets apart is as hard as
# telling N(0, 1) from N(1/z, 1). Several of them compose to one with `mu^2 = sum 1/z^2`, and (Balle and Wang 2018,
# Dong, Roth and Su 2022)
#
#     delta(epsilon) = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)
#
# which is solved for epsilon.

# %%
from scipy.optimize import brentq
from scipy.stats import norm

mu = math.sqrt(sum(1 / multiplier**2 for multiplier in z))


def delta_at(epsilon):
    return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(
        -epsilon / mu - mu / 2
    )


by_hand = brentq(
    lambda epsilon: delta_at(epsilon) - claim["delta"], 0.0, 50.0, xtol=1e-12
)
print(f"mu {mu:.6f}, epsilon by scipy {by_hand:.6f}, claimed {claim['epsilon']:.6f}")
assert math.isclose(by_hand, claim["epsilon"], rel_tol=1e-6)

# %% [markdown]
# ## With dp-accounting
#
# Its privacy loss distributions are computed on a grid and rounded up, so the answer may lie a little above.

# %%
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant

accountant = PLDAccountant()
for multiplier in z:
    accountant.compose(GaussianDpEvent(multiplier))
independent = accountant.get_epsilon(claim["delta"])
print(f"epsilon by dp-accounting {independent:.6f}")
assert by_hand - 1e-6 <= independent <= by_hand + 1e-2

# %% [markdown]
# Renyi accounting, which many libraries use, gives a looser number for the same noise: it is never the claim here.

# %%
from dp_accounting.rdp import RdpAccountant

looser = RdpAccountant()
for multiplier in z:
    looser.compose(GaussianDpEvent(multiplier))
print(f"epsilon by Renyi orders  {looser.get_epsilon(claim['delta']):.6f}")
assert looser.get_epsilon(claim["delta"]) > by_hand

# %% [markdown]
# ## With one line
#
# The same from fedboard, and what it takes to promise half as much:

# %%
print(
    fedboard.epsilon("runs/claimed"),
    fedboard.noise_multiplier(epsilon=1.0, releases=len(z)),
)
assert math.isclose(fedboard.epsilon("runs/claimed"), by_hand, rel_tol=1e-6)

# %% [markdown]
# What this does *not* show: that these were all releases, and that the sensitivities are true. The first is what the
# ledger is for, the second is [attacked](attack-your-own-run.py). [What is promised](../guide/privacy.md) has both.
