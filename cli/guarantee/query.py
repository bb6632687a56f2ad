"""``fedboard query``: one private question, to the users of a data set or to the devices of a fleet."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fedboard.cli.columns import COLUMNS, column_mapping
from fedboard.cli.counts import WORKERS
from fedboard.cli.documents import JSON, document
from fedboard.cli.research.configuration import parse_range
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError, TooFewAnswersError

if TYPE_CHECKING:
    from fedboard.common.certificate import Certificate
    from fedboard.common.queries.wording import Wording
    from fedboard.server.fleet.queries import PutQuery
    from fedboard.server.fleet.state_folder import StateFolder


def _tell(record: dict[str, Any], certificate: "Certificate", *, place: Path | None, as_json: bool) -> None:
    """Print an answer, and write its certificate where that is asked for."""
    if place is not None:
        place.write_text(certificate.to_json() + "\n", encoding="utf-8")
    document({**record, "certificate": certificate.to_dict()}) if as_json else click.echo(_text(record))


def _text(record: dict[str, Any]) -> str:
    reserved = record.get("reserved", 0.0)  # of a fleet: for its training and for other questions
    more = f" ({reserved:.6g} with what is reserved)" if reserved > record["spent"] else ""
    rows = [(record["question"], f"{record['value']:.6g}")]
    if record["interval"] is not None:
        rows.append(("95 % interval of the noise", "{:.6g} to {:.6g}".format(*record["interval"])))
    if record["rank_error"] is not None:
        rows.append(("rank error, 95 %", f"at most {record['rank_error']:.6g} {record['rank_unit']}"))
    rows += [
        ("noise", record["noise"]),
        ("this question", f"epsilon {record['epsilon']:g} ({record['mechanism']})"),
        (
            "spent with it",
            f"epsilon {record['spent']:.6g}{more} of {record['budget']:g} at delta {record['delta']:g}, "
            f"{record['adjacency']}",
        ),
        (
            "promised",
            f"epsilon {record['budget']:g}, the whole budget: questions are chosen by the answers before them, so "
            "what was spent when you stop promises nothing",
        ),
    ]
    told = aligned(("", ""), rows)
    if not record["private"]:
        told += "\n\nIts noise can be reproduced from a seed: a simulation, not a private answer."
    return told


OF_DATA = {
    "data_format": "--format",
    "columns": "--columns",
    "rating_range": "--rating-range",
    "ledger": "--ledger",
    "population": "--population",
    "budget": "--budget",
    "delta": "--delta",
    "adjacency": "--adjacency",
    "noise": "--noise",
    "seed": "--seed",
    "workers": "--workers",
}
"""What a fleet has in its own settings: parameter to option."""

_LOOK_SECONDS = 0.2


def _query_fleet(wording: "Wording", given: dict[str, Any]) -> None:
    """Put a question to the fleet whose ``fleet.toml`` is given, and wait for the answer.

    Raises:
        BudgetExceededError: the fleet's account has not that much left.
        InputError: an option is for data sets, or the question cannot be put.
        TooFewAnswersError: it was given up.
    """
    from fedboard.server.fleet.queries import put_query
    from fedboard.server.fleet.settings import read_settings
    from fedboard.server.fleet.state_folder import StateFolder

    _require_for_fleets(given)
    settings = read_settings(given["fleet"])
    put = put_query(settings, wording, epsilon=given["epsilon"])
    click.echo(f"{put.name}: {put.task().statement.sentence}", err=True)
    later = f"fedboard query results {put.name} --fleet {given['fleet']}"
    if given["no_wait"]:
        click.echo(f"later: {later}", err=True)
        if given["as_json"]:
            document({"name": put.name, "standing": put.standing().value})
        return
    _wait(put, StateFolder.of(settings), later)
    _tell_put(put, place=given["certificate"], as_json=given["as_json"])


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


def _tell_put(put: "PutQuery", *, place: Path | None, as_json: bool) -> None:
    from fedboard.server.fleet.queries import told

    if put.reason is not None:
        raise TooFewAnswersError(f"{put.name} was given up: {put.reason}; nothing of it was released")
    found = told(put)
    _tell(found.to_dict(), found.certificate, place=place, as_json=as_json)


def _list(questions: "Iterable[PutQuery]", *, as_json: bool) -> None:
    """Every question and how it stands, oldest first."""
    from fedboard.common.board import Board
    from fedboard.server.fleet.queries import Standing, told

    records: list[dict[str, Any]] = []
    for put in questions:
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
        click.echo("This fleet was asked nothing so far; see: fedboard query mean --help")
    else:
        rows = [
            (
                one["name"],
                one["standing"],
                "" if one["value"] is None else f"{one['value']:.6g}",
                one["board"][:16],
                one["question"],
            )
            for one in records
        ]
        click.echo(aligned(("", "", "answer", "board", "question"), rows, right=(2,)))


_EXAMPLES = """\b
Examples:
  fedboard query mean --data ml-1m/ --epsilon 0.5 --ledger questions.ledger --budget 4
  fedboard query quantile --of counts --share 0.9 --data ml-1m/ --epsilon 0.5 --ledger questions.ledger
  fedboard query mean --data ml-1m/ --epsilon 0.2 --population members.ledger --noise secure
  fedboard query mean --fleet fleet.toml --epsilon 0.5
  fedboard query quantile --of counts --share 0.9 --bisect --fleet fleet.toml --epsilon 0.5
  fedboard query results --fleet fleet.toml
"""


@click.command(epilog=_EXAMPLES)
@click.argument("question", type=click.Choice(["mean", "quantile", "results"]))
@click.argument("name", required=False, metavar="[QUESTION-N]")
@click.option("--data", metavar="PATH|NAME", help="Ratings, or `synthetic`.")
@click.option(
    "--fleet",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Instead of data: the fleet.toml of a server, whose devices are asked. Its [queries] pays.",
)
@click.option("--no-wait", is_flag=True, help="Of a fleet: put the question and end; see `query results`.")
@click.option("--format", "data_format", metavar="NAME", help="Format, where it is not recognised.")
@COLUMNS
@click.option("--rating-range", metavar="LOW,HIGH", help="Public range of ratings, for generic tables.")
@click.option(
    "--of",
    "subject",
    type=click.Choice(["ratings", "counts", "norms"]),
    default="ratings",
    show_default=True,
    help="Ratings; each user's number of ratings; the L2 norm of her ratings less the scale's centre.",
)
@click.option("--share", type=float, default=0.5, show_default=True, help="Which quantile, in (0, 1).")
@click.option(
    "--candidates",
    metavar="X,X,...",
    help="Of a quantile: the possible answers, ascending.  [default: evenly spaced ratings; log-spaced counts "
    "and norms]",
)
@click.option(
    "--bisect",
    is_flag=True,
    help="Of a quantile: ask in rounds that halve the candidates: less noise, Gaussian only.",
)
@click.option("--epsilon", type=float, help="What this question costs by itself.")
@click.option(
    "--bound",
    type=float,
    metavar="H",
    help="Ratings beyond which a user weighs no more; a public guess, or the answer to "
    "`quantile --of counts`.  [default: 20]",
)
@click.option(
    "--highest", type=float, metavar="X", help="Largest number that counts.  [default: 1000; norms: 100]"
)
@click.option("--ledger", type=click.Path(path_type=Path), metavar="FILE", help="Pays; made with --budget.")
@click.option(
    "--population",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Account of these users; pays too.",
)
@click.option("--budget", type=float, metavar="EPSILON", help="Of a new --ledger, all questions together.")
@click.option("--delta", type=float, help="Of a new --ledger.  [default: 1e-5]")
@click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "replace"]),
    help="Of a new --ledger.  [default: add-remove]",
)
@click.option(
    "--mechanism",
    type=click.Choice(["auto", "pure", "gaussian"]),
    default="auto",
    show_default=True,
    help="auto: pure (delta 0) while the account holds pure releases only.",
)
@click.option("--noise", type=click.Choice(["secure", "seeded"]), default="secure", show_default=True)
@click.option("--seed", type=int, help="Of seeded noise, which protects nobody.")
@click.option("--workers", type=WORKERS, default=1, help="Processes; never changes the answer.")
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it there.",
)
@JSON
def query(question: str, **given: Any) -> None:
    """Ask the users of a data set, or of a fleet, one private question; it is booked before the answer is drawn.

    A mean or a quantile: of the ratings, of the users' numbers of ratings, of their norms. Means of ratings weigh
    no user more than H ratings. Numbers of ratings are private, so H must not be read off them. The quantile of
    counts is a bound on contributions, that of norms a clipping norm.

    `query results` lists what a fleet was asked, and how each question stands; with a name it tells the answer.
    """
    if question == "results":
        _results(given)
        return
    if given["epsilon"] is None:
        raise InputError("what may the question cost? give --epsilon")
    if given["name"] is not None:
        raise InputError(f"{given['name']!r}: a name goes with `query results` alone")
    if question == "mean" and (given["share"] != 0.5 or given["candidates"] or given["bisect"]):
        raise InputError("--share, --candidates and --bisect are of quantiles; a mean has none of them")
    _answer(question, given)


def _results(given: dict[str, Any]) -> None:
    from fedboard.server.fleet.queries import queries_of
    from fedboard.server.fleet.settings import read_settings
    from fedboard.server.fleet.state_folder import StateFolder

    if given["fleet"] is None:
        raise InputError("whose questions? give --fleet FILE, the fleet.toml of its server")
    name = given["name"]
    found = {put.name: put for put in queries_of(StateFolder.of(read_settings(given["fleet"])))}
    if name is None:
        _list(found.values(), as_json=given["as_json"])
    elif name not in found:
        known = ", ".join(found) or "none so far"
        raise InputError(f"this fleet was not asked {name!r}; its questions: {known}")
    else:
        _tell_put(found[name], place=given["certificate"], as_json=given["as_json"])


def _answer(kind: Any, given: dict[str, Any]) -> None:
    from fedboard.common.queries.collection import Subject
    from fedboard.common.queries.wording import Wording

    if (given["data"] is None) == (given["fleet"] is None):
        raise InputError(
            "who is asked? give --data PATH for a data set, or --fleet FILE for the devices of a fleet"
        )
    wording = Wording(
        kind=kind,
        subject=Subject(given["subject"]),
        share=given["share"],
        candidates=_candidates(given["candidates"]),
        bound=given["bound"],
        highest=given["highest"],
        bisected=given["bisect"],
    )
    if given["fleet"] is not None:
        _query_fleet(wording, given)
    else:
        _ask_data(wording, given)


def _ask_data(wording: "Wording", given: dict[str, Any]) -> None:
    from fedboard.simulations.data import Ratings, find_data, load_ratings
    from fedboard.simulations.runs.asking import Asking, Payer, ask_users

    if given["no_wait"]:
        raise InputError("--no-wait is for --fleet; a data set is asked at once")
    scale = None if given["rating_range"] is None else parse_range(given["rating_range"])
    columns = column_mapping(given["columns"])

    def load() -> Ratings:
        place = find_data(given["data"])
        return load_ratings(place, format=given["data_format"], columns=columns, rating_range=scale)

    told = ask_users(
        wording,
        load,
        Payer(**{name: given[name] for name in ("ledger", "population", "budget", "delta", "adjacency")}),
        Asking(**{name: given[name] for name in ("epsilon", "mechanism", "noise", "seed", "workers")}),
    )
    _tell(told.to_dict(), told.certificate, place=given["certificate"], as_json=given["as_json"])


def _candidates(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--candidates must be numbers X,X,..., got {text!r}") from None
