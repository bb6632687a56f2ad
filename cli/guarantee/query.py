"""``fedboard query``: one private question, to the users of a data set or to the devices of a fleet."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from fedboard.cli.declaring import argument, command, option
from fedboard.cli.documents import JSON, answer, document
from fedboard.cli.options import COLUMNS, RATING_RANGE, column_mapping, rarely
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError, TooFewAnswersError

if TYPE_CHECKING:
    from fedboard.common.certificate import Certificate
    from fedboard.common.queries.wording import Wording
    from fedboard.server.fleet.queries import PutQuery

_LOOK_SECONDS = 0.2
_PATH = click.Path(path_type=Path)
_PLAIN_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)
_OF_DATA = {
    "data_format": option("Format, where it is not recognised.", "--format", metavar="NAME", rare=True),
    "columns": rarely(COLUMNS),
    "rating_range": rarely(RATING_RANGE),
    "ledger": option("Ledger to charge; made with --budget.", type=_PATH, metavar="FILE"),
    "population": option("Account of these users; charged too.", type=_PATH, metavar="FILE", rare=True),
    "budget": option("Of a new ledger, for all its questions.", type=float, metavar="EPSILON"),
    "delta": option("Of a new --ledger.  [default: 1e-5]", type=float, rare=True),
    "adjacency": option(
        "Of a new --ledger: neighbours differ by one user more or less, or by one user's ratings.  "
        "[default: add-remove]",
        type=click.Choice(["add-remove", "replace"]),
        rare=True,
    ),
    "noise": option(
        "`seeded` is reproducible and gives no privacy; `secure` is private.",
        type=click.Choice(["secure", "seeded"]),
        default="secure",
        rare=True,
    ),
    "seed": option("Of seeded noise, which protects nobody.", type=int, rare=True),
}
"""What a fleet has in its own settings."""


def _candidates(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--candidates must be numbers X,X,..., got {text!r}") from None


@command(
    "fedboard query mean --data ml-1m/ --epsilon 0.5 --ledger questions.ledger --budget 4",
    "fedboard query quantile --of counts --share 0.9 --data ml-1m/ --epsilon 0.5 --ledger questions.ledger",
    "fedboard query mean --data ml-1m/ --epsilon 0.2 --population members.ledger --noise secure",
    "fedboard query mean --fleet fleet.toml --epsilon 0.5",
    "fedboard query quantile --of counts --share 0.9 --bisect --fleet fleet.toml --epsilon 0.5",
    "fedboard query results --fleet fleet.toml",
    also=_OF_DATA,
)
def query(
    question: Literal["mean", "quantile", "results"],
    name: str | None = argument("[QUESTION-N]"),
    data: str | None = option("Ratings, or `synthetic`.", metavar="PATH|NAME"),
    fleet: Path | None = option(
        "Instead of data: a server's fleet.toml.",
        more="Its devices are asked, its [queries] pays.",
        type=_PLAIN_FILE,
        metavar="FILE",
    ),
    no_wait: bool = option("Of a fleet: put the question and end; see `query results`.", rare=True),
    subject: Literal["ratings", "counts", "norms"] = option(
        "Of what.",
        "--of",
        more="Ratings; each user's number of ratings; the L2 norm of their ratings less the scale's centre.",
        default="ratings",
    ),
    share: float = option("Which quantile, in (0, 1).", default=0.5),
    candidates: tuple[float, ...] | None = option(
        "Of a quantile: the possible answers, ascending.  [default: evenly spaced ratings; log-spaced counts and "
        "norms]",
        type=_candidates,
        metavar="X,X,...",
        rare=True,
    ),
    bisect: bool = option(
        "Of a quantile: ask in rounds that halve the candidates: less noise, Gaussian only.", rare=True
    ),
    epsilon: float | None = option("What this question costs by itself."),
    bound: float | None = option(
        "Ratings from which a user weighs no more.",
        more="A public guess, or the answer to `quantile --of counts`.  [default: 20]",
        metavar="H",
    ),
    highest: float | None = option(
        "Largest number that counts.  [default: 1000; norms: 100]", metavar="X", rare=True
    ),
    mechanism: Literal["auto", "pure", "gaussian"] = option(
        "auto: pure (delta 0) while the account holds pure releases only.", default="auto", rare=True
    ),
    place: Path | None = option(
        "Write its certificate there.", "--certificate", type=_FILE, metavar="FILE", rare=True
    ),
    as_json: bool = JSON,
    **of_data: Any,
) -> None:
    """Ask users, of a data set or a fleet, one private question.

    It is booked before the answer is drawn. A mean or a quantile: of the ratings, of the users' numbers of
    ratings, of their norms. Means of ratings weigh no user more than H ratings. Numbers of ratings are private, so
    H must not be read off them. The quantile of counts is a bound on contributions, that of norms a clipping norm.

    `query results` lists what a fleet was asked, and how each question stands; with a name it tells the answer.
    """
    if question == "results":
        _results(fleet, name, place=place, as_json=as_json)
        return
    if epsilon is None:
        raise InputError("what may the question cost? give --epsilon")
    if name is not None:
        raise InputError(f"{name!r}: a name goes with `query results` alone")
    if question == "mean" and (share != 0.5 or candidates or bisect):
        raise InputError("--share, --candidates and --bisect are of quantiles; a mean has none of them")
    if (data is None) == (fleet is None):
        raise InputError(
            "who is asked? give --data PATH for a data set, or --fleet FILE for the devices of a fleet"
        )
    from fedboard.common.queries.collection import Subject
    from fedboard.common.queries.wording import Wording

    wording = Wording(
        kind=question,
        subject=Subject(subject),
        share=share,
        candidates=candidates,
        bound=bound,
        highest=highest,
        bisected=bisect,
    )
    if fleet is not None:
        _require_for_fleets(mechanism)
        _query_fleet(wording, fleet, epsilon=epsilon, no_wait=no_wait, place=place, as_json=as_json)
        return
    if no_wait:
        raise InputError("--no-wait is for --fleet; a data set is asked at once")
    from fedboard.simulations.data import Ratings, find_data, load_ratings
    from fedboard.simulations.runs.asking import Asking, Payer, ask_users

    def load() -> Ratings:
        columns, scale = column_mapping(of_data["columns"]), of_data["rating_range"]
        return load_ratings(
            find_data(data or ""), format=of_data["data_format"], columns=columns, rating_range=scale
        )

    payer = Payer(**{key: of_data[key] for key in ("ledger", "population", "budget", "delta", "adjacency")})
    asking = Asking(epsilon=epsilon, mechanism=mechanism, noise=of_data["noise"], seed=of_data["seed"])
    told = ask_users(wording, load, payer, asking)
    _tell(told.to_dict(), told.certificate, place=place, as_json=as_json)


def _tell(record: dict[str, Any], certificate: "Certificate", *, place: Path | None, as_json: bool) -> None:
    """Print an answer, and write its certificate where that is asked for."""
    if place is not None:
        place.write_text(certificate.to_json() + "\n", encoding="utf-8")
    answer({**record, "certificate": certificate.to_dict()}, _text(record), as_json=as_json)


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


def _query_fleet(
    wording: "Wording", fleet: Path, *, epsilon: float, no_wait: bool, place: Path | None, as_json: bool
) -> None:
    """Put a question to the fleet whose ``fleet.toml`` is given, and wait for the answer.

    Raises:
        BudgetExceededError: the fleet's account has not that much left.
        InputError: the question cannot be put.
        TooFewAnswersError: it was given up.
    """
    from fedboard.common.files import is_locked
    from fedboard.server.fleet.queries import Standing, put_query
    from fedboard.server.fleet.settings import read_settings
    from fedboard.server.fleet.state_folder import StateFolder

    settings = read_settings(fleet)
    put = put_query(settings, wording, epsilon=epsilon)
    click.echo(f"{put.name}: {put.task().statement.sentence}", err=True)
    later = f"fedboard query results {put.name} --fleet {fleet}"
    if no_wait:
        click.echo(f"later: {later}", err=True)
        if as_json:
            document({"name": put.name, "standing": put.standing().value})
        return
    if not is_locked(StateFolder.of(settings).lock):
        click.echo(
            "no server runs on this state folder; the question waits for it: fedboard server", err=True
        )
    try:
        while put.standing() is Standing.WAITING:  # the server may be started again meanwhile
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        click.echo(f"the question stays put; later: {later}", err=True)
        raise
    _tell_put(put, place=place, as_json=as_json)


def _require_for_fleets(mechanism: str) -> None:
    context = click.get_current_context()
    for one in context.command.params:
        if one.name in _OF_DATA and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE:
            raise InputError(f"{one.opts[0]} is for --data; a fleet has its own in fleet.toml, leave it out")
    if mechanism == "pure":
        raise InputError(
            "a fleet is asked with Gaussian noise, which every protocol and every device's ledger knows; leave out "
            "--mechanism"
        )


def _tell_put(put: "PutQuery", *, place: Path | None, as_json: bool) -> None:
    from fedboard.server.fleet.queries import told

    if put.reason is not None:
        raise TooFewAnswersError(f"{put.name} was given up: {put.reason}; nothing of it was released")
    found = told(put)
    _tell(found.to_dict(), found.certificate, place=place, as_json=as_json)


def _results(fleet: Path | None, name: str | None, *, place: Path | None, as_json: bool) -> None:
    """Every question of a fleet and how it stands, oldest first; of one that is named the answer."""
    from fedboard.common.board import Board
    from fedboard.server.fleet.queries import Standing, queries_of, told
    from fedboard.server.fleet.settings import read_settings
    from fedboard.server.fleet.state_folder import StateFolder

    if fleet is None:
        raise InputError("whose questions? give --fleet FILE, the fleet.toml of its server")
    found = {put.name: put for put in queries_of(StateFolder.of(read_settings(fleet)))}
    if name is not None:
        if name not in found:
            known = ", ".join(found) or "none so far"
            raise InputError(f"this fleet was not asked {name!r}; its questions: {known}")
        _tell_put(found[name], place=place, as_json=as_json)
        return
    records, rows = [], []
    for put in found.values():
        standing, statement = put.standing(), put.task().statement
        value = told(put).answer.value if standing is Standing.ANSWERED else None
        board = Board.load(put.state.first_board).digest
        records.append(
            {
                "name": put.name,
                "standing": standing.value,
                "question": statement.sentence,
                "board": board,
                "epsilon": statement.epsilon,
                "value": value,
                "reason": put.reason,
            }
        )
        shown = "" if value is None else f"{value:.6g}"
        rows.append((put.name, standing.value, shown, board[:16], statement.sentence))
    text = aligned(("", "", "answer", "board", "question"), rows)
    if not rows:
        text = "This fleet was asked nothing so far; see: fedboard query mean --help"
    answer({"questions": records}, text, as_json=as_json)
