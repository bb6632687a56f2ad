"""Options whose help is made when somebody reads it: what it lists would take long to import."""

from collections.abc import Callable
from typing import Any

import click


class ToldLater(click.Option):
    """An option with ``told``, which makes its help."""

    def __init__(self, *words: Any, told: Callable[[], str], **settings: Any) -> None:
        """As ``click.Option``, and with who makes the help."""
        super().__init__(*words, **settings)
        self._told = told

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and what it says, made now."""
        self.help = self._told()
        return super().get_help_record(ctx)


__all__ = ["ToldLater"]
