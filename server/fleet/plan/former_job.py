"""Jobs of the first format, in which everything stood side by side, in the sections of today."""

from typing import Any

from fedboard.common.errors import SettingError

_SECTIONS = {
    "privacy": ("epsilon", "delta", "adjacency", "noise", "seed", "population", "lineage"),
    "rounds": (
        *("expected_nodes", "quorum", "deadline_seconds", "longest_deadline_seconds", "attempts"),
        *("grace_seconds", "resend_seconds", "poll_seconds", "form"),
    ),
}
_OF_PROTOCOL = {
    "protocol": "name",
    "protocol_settings": "settings",
    "step_seconds": "step_seconds",
    "helper": "helper",
}
_DRAWN = {"probability": "poisson", "size": "fixed-size", "cohorts": "shuffled-cohorts"}


def in_sections(job: dict[str, Any]) -> dict[str, Any]:
    """The same job, in sections: every key that was given keeps its value, and none is added.

    A key that the first format did not have stays where it is, and is refused by whoever reads the sections.

    Raises:
        SettingError: a section of today, or more than one number that says who takes part.
    """
    found = dict(job)
    if mixed := {"privacy", "rounds"} & found.keys():
        raise SettingError(
            f"a job with the section {min(mixed)!r} must state its format; it has no key 'format'"
        )
    named = {key: found.pop(name) for name, key in _OF_PROTOCOL.items() if name in found}
    drawn = {name: value for name in _DRAWN if (value := found.pop(name, None)) is not None}
    if len(drawn) > 1:
        raise SettingError(f"only one of probability, size and cohorts can be given, got {', '.join(drawn)}")
    sections: dict[str, Any] = {
        section: {name: found.pop(name) for name in names if name in found}
        for section, names in _SECTIONS.items()
    }
    for name, value in drawn.items():
        sections["privacy"]["participation"] = {"kind": _DRAWN[name], name: value}
    return {**found, **sections, "protocol": named}
