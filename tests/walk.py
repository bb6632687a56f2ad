"""All commands of the command line, for tests that hold of each."""

from collections.abc import Iterator

import click


def walked(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below this one, and itself, with the words that call it."""
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from walked(inner, (*path, name))


def leaves(command: click.Command) -> dict[tuple[str, ...], click.Command]:
    """Every command that is no group, by the words that call it."""
    return {path: found for path, found in walked(command) if not isinstance(found, click.Group)}
