"""One table of exit codes, in which every error has a place; counts and numbers out of range are input."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.main import commands
from fedboard.common.errors import FedboardError
from tests.cli.conftest import Command
from tests.walk import leaves


def kinds(error: type[FedboardError]) -> Iterator[type[FedboardError]]:
    yield error
    for kind in error.__subclasses__():
        yield from kinds(kind)


def test_every_error_has_a_code_of_the_table() -> None:
    assert commands.commands  # everything that raises is imported
    assert {kind.exit_code for kind in kinds(FedboardError)} <= set(ExitCode)


OUT_OF_RANGE = (
    ("simulate", "--epsilon", "-1"),
    ("sweep", "--epsilon", "-1"),
    ("tune", "--data", "synthetic", "--epsilon", "-1"),
    ("demo", "--epsilon", "-1"),
    ("audit", "--epsilon", "-1"),
    ("account", "--epsilon", "-1", "--releases", "3"),
    ("account", "--epsilon", "1", "--releases", "2", "--poisson", "3"),
    ("account", "--noise-multiplier", "-1"),
    ("query", "quantile", "--share", "3", "--data", "synthetic", "--epsilon", "1", "--ledger", "l"),
    ("ledger", "create", "p", "--epsilon", "-1", "--delta", "1e-6"),
    ("ratings", "init", "d", "--epsilon", "-1"),
)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OUT_OF_RANGE, ids=" ".join)
def test_a_number_out_of_range_is_input_whichever_command_it_is_given_to(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = fedboard(*arguments)

    assert refused.exit_code == ExitCode.INPUT, refused.output
    assert "Traceback" not in refused.stderr


TAKES_FILES = {
    path: [one for one in command.params if isinstance(one, click.Argument) and one.required]
    for path, command in leaves(commands).items()
    if path[0] not in ("ratings", "data", "flower", "keys", "protocols")
}


@pytest.mark.parametrize("path", [path for path, files in TAKES_FILES.items() if files], ids=" ".join)
def test_every_command_refuses_a_missing_file_with_the_same_code(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    missing = fedboard(*path, *("missing" for _ in TAKES_FILES[path]))

    assert missing.exit_code == ExitCode.INPUT, missing.output


pytestmark = pytest.mark.slow


HUGE = "1000000000000"
FEW = ("--set", "data.synthetic.n_users=50")
"""Read before the count is looked at."""
ENDLESS = (
    (("account", "--epsilon", "1", "--releases", HUGE), "<=10000"),
    (("account", "--noise-multiplier", "5", "--releases", HUGE), "<=10000"),
    (("account", "--noise-multiplier", "5", "--group", HUGE), "<=1000000000"),
    (("simulate", "--rounds", "1000000000", *FEW), "rounds must be a whole number from 1 to 10000"),
    (
        ("simulate", "--algorithm", "adadpsgd", "--set", "settings.steps=1000000000", *FEW),
        "steps must be a whole number from 1 to 10000",
    ),
    (("simulate", "--workers", "10000"), "run.workers must be a whole number in [1, 256]"),
    (("simulate", "--set", "run.nodes=1000000"), "run.nodes must be a whole number in [1, 10000]"),
    (
        ("simulate", "--set", f"run.clients={HUGE}", "--protocol", "secure-sum"),
        "run.clients must be a whole number in",
    ),
    (("simulate", "--set", "settings.rank=1000000000", *FEW), "rank must be a whole number from 1 to 512"),
    (("simulate", "--set", f"data.synthetic.n_users={HUGE}"), "n_users must be in [1, 1e8]"),
    (("simulate", "--set", f"data.synthetic.n_items={HUGE}"), "n_items must be in [20, 1e7]"),
    (("sweep", "--jobs", "10000"), "<=256"),
    (("tune", "--data", "synthetic", "--trials", HUGE), "<=10000"),
    (("tune", "--data", "synthetic", "--jobs", "10000"), "<=256"),
    (("audit", "--repeat", HUGE), "<=10000"),
    (("audit", "--canaries", HUGE), "<=1000000"),
    (("audit", "--workers", "10000"), "<=256"),
    (("protocols", "show", "secure-sum", "--devices", HUGE), "<=1000000000"),
    (("recommend", "mine.csv", "boards", "-k", HUGE), "<=100000"),
    (("explain", "--neighbours", "1", "boards", "-k", HUGE), "<=100000"),
    (("explain", "1", "mine.csv", "boards", "-k", HUGE), "<=100000"),
)


@pytest.mark.parametrize(("arguments", "limit"), ENDLESS, ids=lambda part: " ".join(part)[:40])
def test_a_count_without_end_is_refused_with_its_limit(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], limit: str
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = fedboard(*arguments)

    assert refused.exit_code == 2, refused.output
    assert limit in refused.stderr
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
