"""The numbers of a run that a tracker may be told, each with what entitles it to leave."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_OF_ROUND = re.compile(r"^[a-z]+-[0-9]+/")
_SIGNS = re.compile(r"[^\w./-]+", re.ASCII)


class Standing(StrEnum):
    """Why a number may be told."""

    BOOKED = "booked"
    """It follows from releases in the ledger."""
    SIMULATION = "not private: simulation only"
    """It does not, and says so in its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number at one round."""

    name: str
    value: float
    step: int
    """Number of the round."""
    standing: Standing | None
    """None: nothing entitles it, so nobody is told."""
    releases: tuple[str, ...] = ()
    """Of a booked one: the releases that it follows from."""

    @property
    def label(self) -> str:
        """The name under which it is told."""
        plain = _SIGNS.sub("_", self.name).strip("/")
        return f"not_private_simulation_only/{plain}" if self.standing is Standing.SIMULATION else plain


def numbers_of(state: Mapping[str, Any]) -> Iterator[Number]:
    """All numbers of a run's state, as ``RunSource`` reads it, that are meant to be tracked.

    Counts of a fleet's answers are not: no budget covers them.
    """
    if state.get("budget") is None:
        return
    yield from _booked(state)
    if state.get("simulation") is not None:
        yield from _simulated(state["simulation"])


def _booked(state: Mapping[str, Any]) -> Iterator[Number]:
    limit, alone = state["budget"]["epsilon"], {one["name"]: one for one in state["releases"]}
    behind: tuple[str, ...] = ()
    for one in state["rounds"]["list"]:
        step, own = one["number"], tuple(one["releases"])
        behind += own
        if one["epsilon"] is None:
            return
        told = {"step": step, "standing": Standing.BOOKED}
        yield Number(name="epsilon_spent", value=one["epsilon"], releases=behind, **told)
        yield Number(name="epsilon_left", value=max(limit - one["epsilon"], 0.0), releases=behind, **told)
        for name in own:
            if name in alone and alone[name]["booked"]:
                short = _OF_ROUND.sub("", name)
                cost, noise = alone[name]["epsilon"], alone[name]["noise_multiplier"]
                yield Number(name=f"release_epsilon/{short}", value=cost, releases=(name,), **told)
                yield Number(name=f"noise_multiplier/{short}", value=noise, releases=(name,), **told)


def _simulated(simulation: Mapping[str, Any]) -> Iterator[Number]:
    last = 0
    for one in simulation["rounds"]:
        last = one["number"]
        for name, value in one["metrics"].items():
            yield Number(name=name, value=value, step=last, standing=Standing.SIMULATION)
    for model in simulation["final"]:
        for name, value in model["metrics"].items():
            full = f"final/{model['model']}/{name}"
            yield Number(name=full, value=value, step=last, standing=Standing.SIMULATION)
