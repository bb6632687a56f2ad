"""Colour, where a terminal has it and nobody minds."""

import os
from collections.abc import Mapping

import click


def colour_wanted(environment: Mapping[str, str] = os.environ) -> bool | None:
    """Whether to colour: always, never, or (None) wherever the output is a terminal.

    ``NO_COLOR`` (https://no-color.org) wins over ``FORCE_COLOR`` and ``CLICOLOR_FORCE``, these over ``TERM=dumb``
    and ``CLICOLOR=0``.
    """
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return False if environment.get("TERM") == "dumb" or environment.get("CLICOLOR") == "0" else None


def good(text: str) -> str:
    """Of what holds."""
    return click.style(text, fg="green")


def bad(text: str) -> str:
    """Of what does not."""
    return click.style(text, fg="red")


def warned(text: str) -> str:
    """Of what must not be overlooked."""
    return click.style(text, fg="yellow")


def strong(text: str) -> str:
    """Of headings, and of what is looked for first."""
    return click.style(text, bold=True)
