"""``fedboard completion``: the shell completes commands, options and their values."""

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import click

from fedboard.cli.style.documents import JSON, document
from fedboard.cli.style.groups import Commands
from fedboard.common.errors import InputError

_PROGRAM, _VARIABLE = "fedboard", "_FEDBOARD_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")
_FIRST, _LAST = "# >>> fedboard completion >>>", "# <<< fedboard completion <<<"
_BLOCK = re.compile(rf"\n?{re.escape(_FIRST)}.*?{re.escape(_LAST)}\n", re.DOTALL)
_LINES = {
    "bash": "[ -f {script} ] && . {script}",
    "zsh": "(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}\n[ -f {script} ] && . {script}",
}
"""What the shell's own start file reads the script by; fish looks for it by itself."""
_SHELL = click.option("--shell", type=click.Choice(_SHELLS), help="Which shell.  [default: that of $SHELL]")


class _Places(NamedTuple):
    script: Path
    start_file: Path | None
    """Where a few lines are added; None where the shell finds the script by itself."""


@click.group(cls=Commands)
def completion() -> None:
    """Let the shell complete commands, options and values with the Tab key."""


@completion.command(
    epilog="Example: fedboard completion install; fedboard completion install --print > done.bash"
)
@_SHELL
@click.option("--print", "print_only", is_flag=True, help="Only print the script, for a place of your own.")
@JSON
def install(shell: str | None, print_only: bool, as_json: bool) -> None:
    """Install the completion script for your shell.

    Writes one file, and for bash and zsh a marked block of lines into the shell's start file. Doing it again
    changes nothing but to bring both up to date.
    """
    chosen = shell or _own_shell()
    script = _script(chosen)
    if print_only:
        document({"shell": chosen, "script": script}) if as_json else click.echo(script)
        return
    places = _places(chosen)
    _write(places.script, script)
    if places.start_file is not None:
        before = _text_of(places.start_file)
        _write(places.start_file, _without_block(before) + _block(chosen, places.script))
    written = [str(path) for path in places if path is not None]
    if as_json:
        document({"shell": chosen, "written": written})
        return
    click.echo(f"Written for {chosen}: {places.script}")
    if places.start_file is not None:
        click.echo(f"and the lines between '{_FIRST}' and '{_LAST}' in {places.start_file}.")
    named = "" if shell is None else f" --shell {shell}"
    click.echo(f"It works in new shells. Undo it with: fedboard completion remove{named}")


@completion.command(epilog="Example: fedboard completion remove --shell bash")
@_SHELL
@JSON
def remove(shell: str | None, as_json: bool) -> None:
    """Take back what `fedboard completion install` wrote."""
    places = _places(shell or _own_shell())
    removed = []
    if places.script.exists():
        places.script.unlink()
        removed.append(str(places.script))
    if places.start_file is not None and _FIRST in (before := _text_of(places.start_file)):
        _write(places.start_file, _without_block(before))
        removed.append(f"the lines in {places.start_file}")
    if as_json:
        document({"removed": removed})
    else:
        click.echo(f"Removed: {', '.join(removed)}" if removed else "There was nothing to remove.")


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _SHELLS:
        told = f"$SHELL is {name!r}, which is none of them" if name else "$SHELL is not set"
        raise InputError(f"say for which shell: --shell {', '.join(_SHELLS)} ({told})")
    return name


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # one of _SHELLS
    made = kind(click.Group(), {}, _PROGRAM, _VARIABLE)
    return made.source_template % made.source_vars()


def _places(shell: str) -> _Places:
    home = Path.home()
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return _Places(config / "fish" / "completions" / f"{_PROGRAM}.fish", None)
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    start = home / ".bashrc" if shell == "bash" else Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
    return _Places(data / _PROGRAM / f"completion.{shell}", start)


def _block(shell: str, script: Path) -> str:
    return f"\n{_FIRST}\n{_LINES[shell].format(script=shlex.quote(str(script)))}\n{_LAST}\n"


def _without_block(text: str) -> str:
    return _BLOCK.sub("", text)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text, so nothing was changed; --print prints the script"
        ) from error


def _write(path: Path, text: str) -> None:
    """Where it says something else; through a link, since start files often are links."""
    target = path.resolve()
    if not target.exists() or _text_of(target) != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
