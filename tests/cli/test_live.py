"""Live pages in a real browser: each round of a run of another process, through a restart; a device."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.cli.research.live import watched as serving_of
from fedboard.common.privacy.accounting.exact import epsilon_of_events
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import Problem
from fedboard.simulations.simulate import simulate
from tests.client.page.browser import NEEDS_AXE, Page
from tests.common.tasks.conftest import a_task
from tests.common.wire.live.asking import listening, states
from tests.ports import free_ports

pytestmark = pytest.mark.slow

ROUNDS = 3
ALL = ROUNDS + 1
PLAN = a_task(epsilon=5.0).plan()
CONFIG = {
    "algorithm": "adadpals",
    "data": {"synthetic": {"n_users": 120, "n_items": 30, "mean_ratings_per_user": 12.0}},
    "settings": {"rank": 2, "rounds": ROUNDS},
    "run": {"baselines": False, "kernels": "numpy"},
}
STATES = (
    "return Object.fromEntries([...document.querySelectorAll('#rounds tr')]"
    ".map((row) => [row.dataset.round, row.dataset.state]))"
)


class Server:
    """``fedboard live`` as a process of its own."""

    def __init__(self, run: Path) -> None:
        self.run, (self.port,) = run, free_ports(1)
        self.address = f"http://127.0.0.1:{self.port}/"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-c", "from fedboard.cli.main import main; main()", "live", str(self.run)]
        self.process = subprocess.Popen(
            [*command, "--address", f"127.0.0.1:{self.port}"], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == f"live page: {self.address}\n"

    def kill(self) -> None:
        """As it ends when nobody is asked."""
        assert self.process is not None
        assert self.process.stderr is not None
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.process = None


class Onlooker:
    """Waits, in the middle of a run, until the page shows each round; the server is killed after the second."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server
        self.shown: list[dict[str, str]] = []
        self.links: list[str] = []

    def planned(self, problem: Problem, rounds: Sequence[str]) -> None:
        self.server.start()
        self.page.driver.get(self.server.address)
        self.page.until("return document.documentElement.dataset.state === 'running'")

    def progress(self, phase: str, done: int, total: int) -> None:
        """What is within a round is in no file."""

    def round_finished(self, line: Mapping[str, Any]) -> None:
        number = line["round"]
        if number == 2:
            self.server.kill()
            self.page.until("return document.documentElement.dataset.link === 'away'")
            self.links.append(self.page.text("#link-words"))
            self.server.start()
        row = f"document.querySelector('#rounds tr[data-round=\"{number}\"]')"
        self.page.until(f"return {row}?.dataset.state === 'made'")
        self.shown.append(self.page.js(STATES))


@pytest.fixture(scope="module")
def watched(page: Page, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Onlooker]:
    """A whole run, and what the page showed of it meanwhile; the page is still open."""
    run = tmp_path_factory.mktemp("live") / "trial <b>"
    onlooker = Onlooker(page, Server(run))
    try:
        simulate(parse_config(CONFIG), run, listener=onlooker, report=False)
        yield onlooker
    finally:
        if onlooker.server.process is not None:
            onlooker.server.kill()


def test_each_round_of_a_run_is_shown_and_a_restart_of_the_server_survived(
    page: Page, watched: Onlooker
) -> None:
    page.until("return document.documentElement.dataset.state === 'finished'")
    made = [sum(state == "made" for state in states.values()) for states in watched.shown]

    assert made == list(range(1, ALL + 1))
    assert watched.links == ["no news: the server is away; asking again"]
    assert page.text("#link-words") == "live"
    assert page.text("#rounds-count") == f"{ALL} of {ALL} made"
    assert page.js("return document.querySelectorAll('#rounds tr').length") == ALL


def test_it_shows_budget_releases_seal_and_labelled_metrics(page: Page, watched: Onlooker) -> None:
    page.until("return document.querySelectorAll('#seal li').length === 6")
    steps = page.js(
        "return Object.fromEntries([...document.querySelectorAll('#seal li')]"
        ".map((row) => [row.dataset.step, row.dataset.state]))"
    )

    assert page.text(".budget-words").startswith(
        "5 of 5 epsilon at delta 1\u00a0×\u00a010⁻⁵: this run; 0 left"
    )
    assert steps == dict.fromkeys(("bytes", "chain", "ledger", "promise"), "passed") | {
        "noise": "failed",
        "signature": "open",
    }
    assert page.text("#seal-words") == f"board {ALL}: not private: a simulation"
    assert page.text("#simulation-label") == "not private: simulation only"
    assert (
        page.js("return document.querySelectorAll('#metrics tr').length") == ROUNDS + 1
    )  # the last: on tests
    assert page.js("return document.querySelectorAll('#releases tr').length") > ROUNDS
    assert page.js("return document.querySelector('#answers').hidden"), "nobody was asked over a net"
    assert not page.js("return document.querySelector('#simulation-note').hidden")


def test_an_epsilon_is_never_shown_smaller_than_it_is(page: Page, watched: Onlooker) -> None:
    page.until("return document.querySelectorAll('#releases tr').length > 0")
    run = watched.server.run
    with Ledger.open(run / "ledger.sqlite", read_only=True) as ledger:
        alone = {one["name"]: epsilon_of_events([one], ledger.budget.delta) for one in ledger.events()}

    shown = page.js(
        "return Object.fromEntries([...document.querySelectorAll('#releases tr')]"
        ".map((row) => [row.children[0].textContent, Number(row.children[3].textContent)]))"
    )

    assert shown.keys() == alone.keys()
    assert all(alone[name] * (1 - 1e-9) <= shown[name] <= alone[name] * (1 + 1e-4) for name in alone)


def test_what_is_named_by_others_is_text(page: Page, watched: Onlooker) -> None:
    assert page.text("#name") == "trial <b>"
    assert page.js("return document.querySelectorAll('b').length") == 0


def test_it_asks_its_own_address_and_nothing_is_logged_but_that_the_server_was_away(
    page: Page, watched: Onlooker
) -> None:
    page.until("return document.documentElement.dataset.state === 'finished'")

    addresses = {address for address in page.requests() if not address.startswith("chrome://")}
    told = page.console()

    assert addresses == {watched.server.address, f"{watched.server.address}events"}
    assert [line for line in told if "ERR_" not in line] == [], (
        "what Chromium says itself of a server that is away"
    )


@NEEDS_AXE
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        *((375, "light"), (1280, "dark")),
        *(pytest.param(*other, marks=pytest.mark.thorough) for other in ((375, "dark"), (1280, "light"))),
    ],
)
def test_no_barrier_is_found_at_either_width(page: Page, watched: Onlooker, width: int, scheme: str) -> None:
    page.until("return document.querySelectorAll('#seal li').length === 6")
    page.look(width, scheme)

    found, passed = page.barriers()
    wider = page.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")

    page.look(1280, "light")
    assert {"color-contrast", "document-title", "list"} <= set(passed)
    assert found == []
    assert wider <= 0


class Reader:
    """Reads the events of the page that the run itself serves, in the middle of the run."""

    def __init__(self, capsys: pytest.CaptureFixture[str], stack: ExitStack) -> None:
        self.capsys, self.stack = capsys, stack
        self.made: list[int] = []

    def planned(self, problem: Problem, rounds: Sequence[str]) -> None:
        address = self.capsys.readouterr().err.removeprefix("live page: ").strip()
        self.news = states(self.stack.enter_context(listening(address)))

    def progress(self, phase: str, done: int, total: int) -> None:
        """What is within a round is in no file."""

    def round_finished(self, line: Mapping[str, Any]) -> None:
        self.made += [
            next(news["rounds"]["made"] for news in self.news if news["rounds"]["made"] > line["round"])
        ]


def test_a_run_serves_its_own_page_from_before_its_folder_is_there_to_its_last_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, run = parse_config(CONFIG), tmp_path / "run"
    with ExitStack() as stack:
        reader = Reader(capsys, stack)
        with serving_of(config, run, "127.0.0.1:0"):
            assert not run.exists()
            simulate(config, run, listener=reader, report=False)
        last = list(reader.news)[-1]

    assert reader.made == list(range(1, ALL + 1))
    assert last["state"] == "finished"
    assert last["simulation"]["final"][0]["metrics"].keys() >= {"test_rmse"}
    assert f"fedboard live {run}" in capsys.readouterr().err


def test_addresses_and_folders_that_cannot_be_are_refused_in_words(tmp_path: Path) -> None:
    def said(*words: str) -> tuple[int, str]:
        ended = CliRunner().invoke(commands, words)
        return ended.exit_code, " ".join(ended.output.split())

    assert said("live", str(tmp_path / "none"))[0] == 2
    code, told = said("simulate", "--live", "settings.toml")
    assert code == 2
    assert "the address of the live page (--live) is HOST:PORT" in told
    code, told = said(
        "simulate", "--algorithm", "als", "--out", str(tmp_path / "als"), "--live", "127.0.0.1:0"
    )
    assert code == 2
    assert "als has neither" in told
