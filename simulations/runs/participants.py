"""Who takes part in a simulation and which privacy each user asks for: all public, whatever the ratings."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray
from fedboard.common.contribution_bounding.mixing import mix64
from fedboard.common.contribution_bounding.participation import Participation
from fedboard.common.contribution_bounding.personal import plan_scale
from fedboard.common.errors import InputError
from fedboard.common.task import ClientTask
from fedboard.simulations.config import PrivacyConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalesByKey:
    """Personal levels of any users, by their keys; picklable. Public."""

    levels: tuple[float, ...]
    """Scale of each level, and at last of those that have none of their own."""
    shares: tuple[float, ...]
    """Of all users, added up."""
    seed: int

    def __call__(self, user_keys: BitArray) -> FloatArray:
        """Each user's scale, float64, shape (n_users,), see ``fedboard.common.contribution_bounding.personal``.

        Args:
            user_keys: uint64, shape (n_users,), see ``Cohort.keys``. Private.
        """
        secret = hashlib.sha256(f"fedboard personal levels\0{self.seed}".encode()).digest()
        coin = mix64(mix64(user_keys ^ np.uint64(int.from_bytes(secret[:8], "little"))))
        place = coin.astype(np.float64) / 2.0**64
        return np.array(self.levels)[np.searchsorted(self.shares, place, side="right")]


def scales_by_key(privacy: PrivacyConfig, task: ClientTask, *, seed: int) -> ScalesByKey | None:
    """What ``personal_scales`` goes by.

    Args:
        privacy: levels, their shares, delta. Public.
        task: calibrated; each level holds for its whole plan.
        seed: with her key it decides which level a user has, whoever else is there. Public.

    Returns:
        None where everybody has the run's epsilon.

    Raises:
        PrivacyError: a level is so small that nothing could be given.
    """
    if not privacy.personal:
        return None
    releases = [request.release for requests in task.plan() for request in requests]
    of_level = [plan_scale(releases, level.epsilon, privacy.delta) for level in privacy.personal]
    shares = np.cumsum([level.share for level in privacy.personal])
    return ScalesByKey(levels=(*of_level, 1.0), shares=tuple(shares.tolist()), seed=seed)


def personal_scales(
    privacy: PrivacyConfig, task: ClientTask, *, user_keys: BitArray, seed: int
) -> FloatArray | None:
    """Each user's scale, where some of them ask for a smaller epsilon than the run's.

    Args:
        privacy: as of ``scales_by_key``. Public.
        task: as there.
        user_keys: uint64, shape (n_users,), see ``Cohort.keys``. Private.
        seed: as there. Public.

    Returns:
        float64, shape (n_users,), see ``contribution_bounding.personal``; None where everybody has the run's
        epsilon.

    Raises:
        PrivacyError: a level is so small that nothing could be given.
    """
    scales = scales_by_key(privacy, task, seed=seed)
    return None if scales is None else scales(user_keys)


def assumptions_of(privacy: PrivacyConfig, participation: Participation) -> Sequence[str]:
    """What the guarantee takes for granted beyond every run's assumptions, and whom it holds for more strongly."""
    found = [] if participation.assumption is None else [participation.assumption]
    if privacy.personal:
        levels = ", ".join(f"{level.share:.4g} at epsilon {level.epsilon:g}" for level in privacy.personal)
        found.append(
            f"Some users asked for more privacy than the claim ({levels}, as shares of all users, at delta "
            f"{privacy.delta:g}): they give so much less that each has her own epsilon. Shares and levels were set "
            "without looking at ratings; which user has which level is not protected."
        )
    return found


def parse_participation(text: str) -> dict[str, object]:
    """``full``, ``poisson:0.1``, ``fixed-size:500`` or ``shuffled-cohorts:4`` as a section of the configuration.

    Raises:
        InputError: not one of these.
    """
    kinds = {
        "poisson": ("probability", float),
        "fixed-size": ("size", int),
        "shuffled-cohorts": ("cohorts", int),
    }
    kind, _, number = text.partition(":")
    section: dict[str, object] = {"kind": kind, "probability": None, "size": None, "cohorts": None}
    if text == "full":
        return section
    try:
        name, read = kinds[kind]
        return {**section, name: read(number)}
    except (KeyError, ValueError):
        raise InputError(
            "participation must be full, poisson:PROBABILITY, fixed-size:USERS or shuffled-cohorts:NUMBER, "
            f"got {text!r}"
        ) from None
