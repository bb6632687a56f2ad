"""Groups of commands, and help that shows names and sentences whole, however narrow the terminal."""

import re
from collections.abc import Iterable

import click

from fedboard.cli.colours import strong
from fedboard.common.checks import did_you_mean

_HYPHEN = "\ue000"
"""Stands for a hyphen within a word while lines are broken: names are copied from here, so none is torn apart."""
_WITHIN = re.compile(r"(?<=\S)-|-(?=\S)")
_WHOLE = 10_000
"""Characters of a summary: as many as its sentence has."""


class WholeWords(click.HelpFormatter):
    """Breaks lines between words alone."""

    def write_heading(self, heading: str) -> None:
        """Of a section."""
        super().write_heading(strong(heading))

    def write_text(self, text: str) -> None:
        """A paragraph."""
        super().write_text(_held(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Names and what they are."""
        super().write_dl([(name, _held(what)) for name, what in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        """The text."""
        return super().getvalue().replace(_HYPHEN, "-")


def _held(text: str) -> str:
    return _WITHIN.sub(_HYPHEN, text)


class HouseContext(click.Context):
    """The context of every command."""

    formatter_class = WholeWords


def _rare(command: click.Command) -> list[click.Option]:
    """Options that are declared hidden: ``--help-all`` shows them."""
    return [param for param in command.params if isinstance(param, click.Option) and param.hidden]


def _show_all(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    rare = _rare(ctx.command)
    for option in rare:
        option.hidden = False
    try:
        click.echo(ctx.get_help(), color=ctx.color)
    finally:
        for option in rare:
            option.hidden = True
    ctx.exit()


class Commands(click.Group):
    """A group that lists the first sentence of each command, whole, and says what a mistyped one may have meant."""

    context_class = HouseContext

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Register a command; its help is formatted as everybody's, and leaves out what is rarely needed."""
        cmd.context_class = HouseContext
        if _rare(cmd):
            cmd.params.append(
                click.Option(
                    ["--help-all"],
                    is_flag=True,
                    is_eager=True,
                    expose_value=False,
                    callback=_show_all,
                    help="Show also the options that are rarely needed.",
                )
            )
        super().add_command(cmd, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command.

        Raises:
            click.UsageError: there is none of this name.
        """
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            known = self.list_commands(ctx)
            told = did_you_mean(args[0], known) or f"; there are {', '.join(known)}"
            raise click.UsageError(f"no such command {args[0]!r}{told}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Names and sentences."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [(n, c.get_short_help_str(_WHOLE)) for n, c in found.items() if c is not None and not c.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
