# %% [markdown]
# # How many users does epsilon 1 need?
#
# Noise is as large for ten people as for ten million; what is learnt grows with the people. So the question is never only
# "which epsilon?" but "which epsilon, for how many?". You should see curves that come down with the number of people, the
# stricter the later, and a rule by which one epsilon is traded for another.
#
# All people here are made up, and the errors are on held-out ratings of theirs: on real people such numbers are not private.

# %%
import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt

import fedboard

PEOPLE = (400, 1_600, 6_400)
NO_PRIVACY_TO_SPEAK_OF = 1_000.0


def rmse(algorithm, epsilon, n_people):
    learnt = {} if algorithm == "bias-private" else {"rank": 4, "rounds": 4}
    run = fedboard.simulate(
        data={
            "synthetic": {
                "n_users": n_people,
                "n_items": 200,
                "mean_ratings_per_user": 60,
            }
        },
        algorithm=algorithm,
        epsilon=epsilon,
        config={"run": {"evaluate_rounds": False, "kernels": "compiled"}},
        baselines=False,
        report=False,
        out=f"runs/{algorithm}-{epsilon:g}-{n_people}",
        **learnt,
    )
    return run.metrics["test_rmse"]


curves = {
    "private means of the items, epsilon 1": ("bias-private", 1.0),
    "residual, epsilon 1": ("residual", 1.0),
    "residual, epsilon 5": ("residual", 5.0),
    "residual, next to no privacy": ("residual", NO_PRIVACY_TO_SPEAK_OF),
}
errors = {
    label: [rmse(*asked, n_people) for n_people in PEOPLE]
    for label, asked in curves.items()
}
print(f"{'test RMSE, people:':40}", *(f"{n_people:>6}" for n_people in PEOPLE))
for label, of_label in errors.items():
    print(f"{label:40}", *(f"{error:6.3f}" for error in of_label))

# %% [markdown]
# More people help every line, and the private ones more. Those at epsilon 1 lag behind those at epsilon 5.

# %%
figure, axes = plt.subplots(figsize=(6.4, 3.6))
for label, of_label in errors.items():
    axes.plot(PEOPLE, of_label, "o-", label=label)
axes.set_xscale("log")
axes.set_xticks(PEOPLE, [f"{n_people:,}" for n_people in PEOPLE])
axes.minorticks_off()
axes.set_xlabel("people")
axes.set_ylabel("test RMSE (made-up people)")
axes.legend()
plt.close(figure)
figure

# %%
for of_label in errors.values():
    assert of_label[-1] < of_label[0]
assert errors["residual, epsilon 1"][-1] < errors["residual, epsilon 1"][0] - 0.02

# %% [markdown]
# ## Trading epsilon for people
#
# What a board is made of are sums over people with noise of deviation `z` times what one person may add. With n people the
# noise in a mean is z / n. So twice the noise with twice the people is the same mean: what counts is `n / z`. The noise
# multiplier that an epsilon takes is exact, and one line:

# %%
RELEASES = 12
z = {
    epsilon: fedboard.noise_multiplier(epsilon=epsilon, releases=RELEASES)
    for epsilon in (0.5, 1.0, 2.0, 5.0, 20.0)
}
for epsilon, multiplier in z.items():
    print(
        f"epsilon {epsilon:4}: z {multiplier:6.2f}, as noisy as epsilon 5 with {multiplier / z[5.0]:5.2f} times the people"
    )
assert 4 < z[1.0] / z[5.0] < 4.5

# %% [markdown]
# So epsilon 1 needs about four times the people of epsilon 5 for means that are as good. How many that is depends on how
# often an item is rated: the rare ones drown first. For your own data let the machine say: `fedboard sweep --data FILE
# --epsilon 1,5,20` prints such a table beside the [floors](../guide/accuracy.md#private-baselines), the simplest private answers; and
# [accuracy](../guide/accuracy.md) has it measured on ten sets of all shapes.
