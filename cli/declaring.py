"""How commands are declared: each parameter of a function says its type, default and help once.

Help fits a screen: ``--help`` shows the first paragraph, the first example and the options that most people need,
``--help-all`` everything.
"""

import inspect
import re
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import click

from fedboard.common.checks import did_you_mean

everything: ContextVar[bool] = ContextVar("everything", default=False)
"""Whether help shows all that there is."""
_CLAUSE = re.compile(r"[:;] |\.$")
_WHOLE = 10_000
"""Characters of a summary: as many as its sentence has."""


class Declared(NamedTuple):
    """What a command's function has in the place of a default."""

    flags: tuple[str, ...]
    """``--name``, if not that of the parameter."""
    settings: dict[str, Any]
    """As of ``click.Option`` or ``click.Argument``."""
    positional: bool = False


def option(text: str, *flags: str, **settings: Any) -> Any:
    """Declare an option, by default ``--name`` of the parameter.

    Args:
        text: what it sets, the allowed values; its default is shown after it.
        flags: other names than that of the parameter.
        settings: as of ``HouseOption``.
    """
    return Declared(flags, {"help": text, **settings})


def argument(metavar: str | None = None, **settings: Any) -> Any:
    """Declare an argument by more than its type; further settings are those of ``click.Argument``."""
    return Declared((), {"metavar": metavar, **settings}, positional=True)


def command(
    *examples: str,
    name: str | None = None,
    group: click.Group | None = None,
    also: Mapping[str, Any] | None = None,
    kind: Callable[..., click.Command] | None = None,
) -> Callable[[Callable[..., object]], Any]:
    """Make a command of a function: its docstring is the help, its parameters are what the command takes.

    A parameter without a default is an argument. Its annotation is its type: ``bool`` makes a flag, ``Path`` a
    path, ``Literal`` a choice, and ``tuple`` an option that may be repeated.

    Args:
        examples: command lines that the help shows, the best one first.
        name: that of the function if not given.
        group: where to add it.
        also: name -> ``option(...)``: options that the function takes as ``**flags``; each says its type.
        kind: ``HouseCommand`` if not given.
    """

    def made(function: Callable[..., object]) -> click.Command:
        own = inspect.signature(function).parameters.values()
        params = [_parameter(name, str | None, declared) for name, declared in (also or {}).items()]
        params += [
            _parameter(one.name, one.annotation, one.default)
            for one in own
            if one.kind != one.VAR_KEYWORD and one.name not in (also or {})
        ]
        called = name or function.__name__.replace("_", "-")
        found = (kind or HouseCommand)(
            called, callback=function, params=params, help=function.__doc__, epilog="\n".join(examples)
        )
        if group is not None:
            group.add_command(found)
        return found

    return made


def _parameter(name: str, annotation: Any, declared: Any) -> click.Parameter:
    if declared is inspect.Parameter.empty:
        declared = Declared((), {}, positional=True)
    optional = type(None) in get_args(annotation)
    settings = {**({} if "type" in declared.settings else _typed(annotation)), **declared.settings}
    if declared.positional:
        if settings.pop("multiple", False):
            settings |= {"nargs": -1, "required": settings.get("required", False)}
        settings.setdefault("required", not optional and "default" not in settings)
        return click.Argument([name], **settings)
    settings.setdefault("show_default", not isinstance(settings.get("default"), bool | None))
    return HouseOption([*(declared.flags or [f"--{name.replace('_', '-')}"]), name], **settings)


def _typed(annotation: Any) -> dict[str, Any]:
    """What an annotation says of a parameter, in click's words."""
    if isinstance(annotation, types.UnionType):
        (annotation,) = (kind for kind in get_args(annotation) if kind is not type(None))
    if annotation is Path:
        return {"type": click.Path(path_type=Path)}
    if annotation is bool:
        return {"is_flag": True}
    if get_origin(annotation) is Literal:
        return {"type": click.Choice(get_args(annotation))}
    if get_origin(annotation) is tuple:
        return {"multiple": True, **_typed(get_args(annotation)[0])}
    return {"type": annotation if annotation in (int, float, str) else None}


class HouseOption(click.Option):
    """An option that may be one of those that are rarely needed, and about which there may be more to say.

    What that is, such as the names in a registry, is asked for when it is shown: no command imports it to start.
    """

    def __init__(
        self, *declarations: Any, more: str | Callable[[], str] = "", rare: bool = False, **settings: Any
    ) -> None:
        """As an option.

        Args:
            declarations: as of ``click.Option``.
            more: the rest of the help, which ``--help-all`` shows, or what finds it out then.
            rare: whether ``--help-all`` alone shows it.
            settings: as of ``click.Option``.
        """
        super().__init__(*declarations, **settings)
        self.more, self.rare = more, rare

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Flags and help."""
        if self.rare and not everything.get():
            return None
        before = self.help
        if everything.get():
            self.help = f"{before} {self.more if isinstance(self.more, str) else self.more()}".strip()
        try:
            return super().get_help_record(ctx)
        finally:
            self.help = before

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Default and range; the range where everything is shown."""
        extra = super().get_help_extra(ctx)
        if not everything.get():
            extra.pop("range", None)
        return extra


class HouseCommand(click.Command):
    """A command whose help fits a screen."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first paragraph, or all."""
        whole = self.help
        if not everything.get():
            self.help = inspect.cleandoc(whole or "").partition("\n\n")[0]
        super().format_help_text(ctx, formatter)
        self.help = whole

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first example and where the others are, or all."""
        examples = (self.epilog or "").splitlines()
        shown = examples if everything.get() else examples[:1]
        if shown:
            formatter.write_paragraph()
            formatter.write_text("\n".join(("\b", "Examples:", *(f"  {line}" for line in shown))))
        if not everything.get():
            formatter.write_text(f"More: {ctx.command_path} --help-all")


class Commands(HouseCommand, click.Group):
    """A group that lists what each command does, and says what a mistyped one may have meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a newcomer meets them."""
        return list(self.commands)

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
        rows = [(name, one.get_short_help_str(_WHOLE)) for name, one in self.commands.items()]
        if not everything.get():
            rows = [(name, _CLAUSE.split(what)[0]) for name, what in rows]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
