"""A query to the devices of a fleet: put, waited for, told."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fedboard.cli.guarantee.ask_options import OF_DATA
from fedboard.cli.guarantee.ask_text import tell
from fedboard.cli.style.documents import document
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError, TooFewAnswersError

if TYPE_CHECKING:
    from fedboard.common.questions.wording import Wording
    from fedboard.server.fleet.plan.state_folder import StateFolder
    from fedboard.server.fleet.queries import PutQuery

_LOOK_SECONDS = 0.2


def ask_fleet(wording: "Wording", given: dict[str, Any]) -> None:
    """Put a question to the fleet whose ``fleet.toml`` is given, and wait for the answer.

    Raises:
        BudgetExceededError: the fleet's account has not that much left.
        InputError: an option is for data sets, or the question cannot be put.
        TooFewAnswersError: it was given up.
    """
    from fedboard.server.fleet.plan.settings import read_settings
    from fedboard.server.fleet.plan.state_folder import StateFolder
    from fedboard.server.fleet.queries import put_query

    _require_for_fleets(given)
    settings = read_settings(given["fleet"])
    put = put_query(settings, wording, epsilon=given["epsilon"])
    click.echo(f"{put.name}: {put.task().statement.sentence}", err=True)
    later = f"fedboard ask answers {put.name} --fleet {given['fleet']}"
    if given["no_wait"]:
        click.echo(f"later: {later}", err=True)
        if given["as_json"]:
            document({"name": put.name, "standing": put.standing().value})
        return
    _wait(put, StateFolder.of(settings), later)
    _tell(put, place=given["certificate"], as_json=given["as_json"])


def _require_for_fleets(given: dict[str, Any]) -> None:
    context = click.get_current_context()
    for name, option in OF_DATA.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{option} is for --data; a fleet has its own in fleet.toml, leave it out")
    if given["mechanism"] == "pure":
        raise InputError(
            "a fleet is asked with Gaussian noise, which every protocol and every device's ledger knows; leave out "
            "--mechanism"
        )


def _wait(put: "PutQuery", fleet: "StateFolder", later: str) -> None:
    """Until it is answered or given up; the server may be started again meanwhile."""
    from fedboard.common.files import is_locked
    from fedboard.server.fleet.queries import Standing

    if not is_locked(fleet.lock):
        click.echo(
            "no server runs on this state folder; the question waits for it: fedboard server", err=True
        )
    try:
        while put.standing() is Standing.WAITING:
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        click.echo(f"the question stays put; later: {later}", err=True)
        raise


def _tell(put: "PutQuery", *, place: Path | None, as_json: bool) -> None:
    from fedboard.server.fleet.queries import told

    if put.reason is not None:
        raise TooFewAnswersError(f"{put.name} was given up: {put.reason}; nothing of it was released")
    found = told(put)
    tell(found.to_dict(), found.certificate, place=place, as_json=as_json)


def tell_one(fleet: Path, name: str, *, as_json: bool) -> None:
    """The answer to one question.

    Raises:
        InputError: no such question, or it is not answered yet.
        TooFewAnswersError: it was given up.
    """
    found = {put.name: put for put in _questions(fleet)}
    if name not in found:
        known = ", ".join(found) or "none so far"
        raise InputError(f"this fleet was not asked {name!r}; its questions: {known}")
    _tell(found[name], place=None, as_json=as_json)


def list_questions(fleet: Path, *, as_json: bool) -> None:
    """Every question and how it stands, oldest first."""
    from fedboard.common.board import Board
    from fedboard.server.fleet.queries import Standing, told

    records: list[dict[str, Any]] = []
    for put in _questions(fleet):
        standing, statement = put.standing(), put.task().statement
        answered = standing is Standing.ANSWERED
        records.append(
            {
                "name": put.name,
                "standing": standing.value,
                "question": statement.sentence,
                "board": Board.load(put.state.first_board).digest,
                "epsilon": statement.epsilon,
                "value": told(put).answer.value if answered else None,
                "reason": put.reason,
            }
        )
    if as_json:
        document({"questions": records})
    elif not records:
        click.echo("This fleet was asked nothing so far; see: fedboard ask mean --help")
    else:
        rows = [
            (one["name"], one["standing"], _shown(one["value"]), one["board"][:16], one["question"])
            for one in records
        ]
        click.echo(aligned(("", "", "answer", "board", "question"), rows, right=(2,)))


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _questions(fleet: Path) -> "list[PutQuery]":
    from fedboard.server.fleet.plan.settings import read_settings
    from fedboard.server.fleet.plan.state_folder import StateFolder
    from fedboard.server.fleet.queries import queries_of

    return queries_of(StateFolder.of(read_settings(fleet)))
