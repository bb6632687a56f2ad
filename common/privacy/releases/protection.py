"""What stands between releases and the ratings: noise that nobody can reproduce, or a simulation's."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from fedboard.common.privacy.releases.noise import noise_problems


class Protection(StrEnum):
    """What stands between a board and the ratings that it was made from."""

    PRIVATE = "private"
    """Noise that nobody can reproduce, in every release."""
    SIMULATION = "simulation"
    """Noise of which some follows from a seed: whoever has the seed subtracts it."""
    NO_DATA = "no-data"
    """Nothing: no rating was looked at yet."""
    UNSTATED = "unstated"
    """Nobody says: there is no certificate, or none that can be read."""

    @property
    def verdict(self) -> str:
        """One plain sentence."""
        return _VERDICTS[self]


_VERDICTS = {
    Protection.PRIVATE: "private: no seed reproduces the noise of any of its releases",
    Protection.SIMULATION: "NOT PRIVATE: the noise can be reproduced from its seed",
    Protection.NO_DATA: "no data: nothing was released yet",
    Protection.UNSTATED: "NOT PRIVATE: no certificate says which noise is in it",
}


def protection_of(releases: Iterable[Mapping[str, Any]]) -> Protection:
    """What the noise of these releases is; one release with seeded noise makes all of it a simulation.

    Args:
        releases: as booked, or as a certificate lists them. Public.

    Not guaranteed: that they were booked truthfully; a stream that follows from a seed cannot be booked as secret
    by this package.
    """
    booked = list(releases)
    if not booked:
        return Protection.NO_DATA
    secret = all(event.get("private") is True and not noise_problems(event) for event in booked)
    return Protection.PRIVATE if secret else Protection.SIMULATION
