"""Options whose help ends with the names that they take, as the registry of the moment has them."""

from collections.abc import Callable
from typing import Any

import click


class NamedOption(click.Option):
    """Asks for the names when its help is shown, so that no command imports them for its start."""

    def __init__(self, *declarations: Any, names: Callable[[], str], **settings: Any) -> None:
        """As an option, with what follows its help.

        Args:
            declarations: as of ``click.Option``.
            names: the rest of the help.
            settings: as of ``click.Option``.
        """
        super().__init__(*declarations, **settings)
        self._names = names

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Flags and help."""
        before = self.help
        self.help = f"{before} {self._names()}".strip() if before else self._names()
        try:
            return super().get_help_record(ctx)
        finally:
            self.help = before


def default_algorithm() -> str:
    """What is run where nobody names another, as help says it."""
    from fedboard.common.algorithms.registry import USUAL, USUAL_FOR_PRESENCE

    return f" [default: {USUAL}; {USUAL_FOR_PRESENCE} with implicit feedback]"


def private_algorithms(beside: str = "") -> str:
    """The private algorithms and the default one.

    Args:
        beside: what else may be named.
    """
    from fedboard.common.algorithms.registry import algorithm_names

    own = "or your own as package.module:RECORD or path/to/file.py:RECORD"
    return f"{', '.join(algorithm_names())}, {own}{beside}. {default_algorithm()}"
