"""``fedboard``: the entry point and the list of commands."""

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from fedboard.cli.declaring import Commands, everything
from fedboard.cli.device.board import board
from fedboard.cli.device.client import client, status
from fedboard.cli.device.ratings import ratings
from fedboard.cli.device.recommend import explain, recommend
from fedboard.cli.documents import begin
from fedboard.cli.exit_codes import table
from fedboard.cli.failures import guarded
from fedboard.cli.fleet.fleet import fleet
from fedboard.cli.fleet.keys import keys
from fedboard.cli.fleet.server import helper, server, witness
from fedboard.cli.guarantee.account import account
from fedboard.cli.guarantee.certificate import certificate
from fedboard.cli.guarantee.ledger import ledger
from fedboard.cli.guarantee.query import query
from fedboard.cli.research.audit import audit
from fedboard.cli.research.data import data
from fedboard.cli.research.demo import demo
from fedboard.cli.research.flower import flower
from fedboard.cli.research.live import live
from fedboard.cli.research.protocols import protocols
from fedboard.cli.research.simulate import simulate
from fedboard.cli.research.sweep import sweep
from fedboard.cli.research.tune import tune
from fedboard.cli.text import colour_wanted
from fedboard.client.starting import start_quickly

_DEBUG, _HELP_ALL = "--debug", "--help-all"


class _Commands(Commands):
    """A group whose failures are sentences, and which takes ``--debug`` anywhere on the line."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run and leave with the exit code."""
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C++ core writes lines of its own on stderr
        given = list(sys.argv[1:] if args is None else args)
        everything.set(_HELP_ALL in given)
        arguments = ["--help" if one == _HELP_ALL else one for one in given if one != _DEBUG]
        begin(arguments)
        settings = {"standalone_mode": False, "color": colour_wanted(), **extra}
        command = partial(super().main, arguments, "fedboard", complete_var, **settings)
        sys.exit(guarded(command, debug=_DEBUG in given))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Where to begin; the exit codes where everything is shown."""
        formatter.write_paragraph()
        formatter.write_text(_START.rstrip())
        if everything.get():
            formatter.write_paragraph()
            formatter.write_text(table())


_START = """\b
Start here:
  fedboard demo                                  made-up data, about a minute
  fedboard simulate --data ml-1m/ --epsilon 5    your own data set
  fedboard recommend my-ratings.csv runs/demo    what one person does with a board
  fedboard certificate verify runs/demo          recompute the guarantee
"""


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="fedboard", message="%(prog)s %(version)s")
@click.option(_DEBUG, is_flag=True, expose_value=False, help="Show the traceback of a failure.")
def commands() -> None:
    """Recommendations that learn from many people and give none of them away.

    A board of item factors is learnt under user-level differential privacy; everybody combines it with their own
    ratings on their own device. What goes wrong is said in a sentence; --debug shows where in the code.
    """


for _command in (
    demo,
    simulate,
    live,
    sweep,
    tune,
    recommend,
    explain,
    board,
    ratings,
    status,
    certificate,
    account,
    query,
    ledger,
    audit,
    keys,
    server,
    fleet,
    helper,
    witness,
    client,
    protocols,
    flower,
    data,
):
    commands.add_command(_command)


def main() -> None:
    """Run ``fedboard``."""
    start_quickly()
    commands.main()
