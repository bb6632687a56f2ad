"""The report in a real browser: live, each round of a run of another process, through a restart; and finished."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.cli.research.live import watched as serving_of
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import Problem
from fedboard.simulations.reports import write_report
from fedboard.simulations.simulate import simulate
from tests.client.page.browser import NEEDS_AXE, Page
from tests.ports import free_ports
from tests.server.operating.asking import pages

pytestmark = pytest.mark.slow

ROUNDS = 3
ALL = ROUNDS + 1
CONFIG = {
    "algorithm": "adadpals",
    "data": {"synthetic": {"n_users": 120, "n_items": 30, "mean_ratings_per_user": 12.0}},
    "settings": {"rank": 2, "rounds": ROUNDS},
    "run": {"baselines": False, "kernels": "numpy"},
}
STATES = "return [...document.querySelectorAll('#rounds-table tbody tr')].map((row) => row.dataset.state)"


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
        self.shown: list[list[str]] = []
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
            self.page.js("document.querySelector('#figure-budget details').open = true; window.kept = true")
            self.server.start()
        rows = "document.querySelectorAll('#rounds-table tbody tr')"
        self.page.until(f"return {rows}[{number}]?.dataset.state === 'made'")
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
    page.until("return document.documentElement.dataset.link === 'connected'")
    made = [states.count("made") for states in watched.shown]

    assert made == list(range(1, ALL + 1))
    assert watched.links == ["no news: the server is away; asking again"]
    assert page.text("#link-words") == "live"
    assert page.text("#state-told") == "The run is finished."
    assert page.text("#rounds .count") == f"{ALL} of {ALL} made"
    assert page.js("return window.kept"), "only what differs was put in place"
    assert page.js("return document.querySelector('#figure-budget details').open"), (
        "as its reader had left it"
    )


def test_it_shows_budget_releases_seal_and_labelled_metrics(page: Page, watched: Onlooker) -> None:
    page.until("return document.querySelectorAll('#seal li').length === 5")
    steps = page.js(
        "return Object.fromEntries([...document.querySelectorAll('#seal li')]"
        ".map((row) => [row.dataset.step, row.dataset.state]))"
    )

    assert page.text(".budget").startswith("5 of 5 epsilon at delta 1e-05: this run; 0 left")
    passed = dict.fromkeys(("bytes", "chain", "ledger", "promise"), "passed")
    assert steps == passed | {"noise": "failed"}
    assert page.text("#seal-badge").strip() == f"board {ALL}: not private"
    assert page.text("#quality .mark") == "not private: simulation only"
    assert page.js("return document.querySelectorAll('#releases-table tbody tr').length") > ROUNDS
    ticks = page.js(
        "return [...document.querySelectorAll('#quality figure:first-child > svg text')]"
        ".map((one) => one.textContent)"
    )
    assert {"2", "3", "4", "board"} <= set(ticks), "boards are whole"
    assert page.text("#seeded").startswith("Not private.")


def test_what_is_named_by_others_is_text(page: Page, watched: Onlooker) -> None:
    assert page.text("h1") == "trial <b>"
    assert page.js("return document.querySelectorAll('b').length") == 0


def test_it_asks_its_own_address_and_nothing_is_logged_but_that_the_server_was_away(
    page: Page, watched: Onlooker
) -> None:
    page.until("return document.documentElement.dataset.state === 'finished'")

    addresses = {address for address in page.requests() if not address.startswith("chrome://")}
    told = page.console()

    assert addresses == {watched.server.address}
    assert [line for line in told if "ERR_" not in line] == [], (
        "what Chromium says itself of a server that is away"
    )


@pytest.fixture(scope="module")
def finished(page: Page, watched: Onlooker) -> str:
    """The address of the file that stays when all is over."""
    return write_report(watched.server.run).as_uri()


def test_the_finished_report_is_the_same_page_and_needs_no_script(
    page: Page, watched: Onlooker, finished: str
) -> None:
    page.driver.get(watched.server.address)
    parts = "return [...document.querySelector('main').children].map((part) => part.id)"
    page.until("return document.documentElement.dataset.link === 'connected'")
    live = page.js(parts)
    page.requests(), page.console()

    page.driver.get(finished)

    assert page.js(parts) == live
    assert page.text("#state-told") == "The run is finished. This page does not change any more."
    assert page.js("return document.scripts.length") == 0
    assert page.requests() == [finished]
    assert page.console() == []
    page.driver.get(watched.server.address)


@NEEDS_AXE
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        *((375, "light"), (1280, "dark")),
        *(pytest.param(*other, marks=pytest.mark.thorough) for other in ((375, "dark"), (1280, "light"))),
    ],
)
def test_no_barrier_is_found_at_either_width(page: Page, watched: Onlooker, width: int, scheme: str) -> None:
    page.until("return document.querySelectorAll('#seal li').length === 5")
    page.look(width, scheme)

    found, passed = page.barriers()

    page.look(1280, "light")
    assert {"color-contrast", "document-title", "list"} <= set(passed)
    assert found == []


class Reader:
    """Reads the page that the run itself serves, again and again."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.read: list[str] = []
        self.reading = threading.Thread(target=self._read, daemon=True)

    def planned(self, problem: Problem, rounds: Sequence[str]) -> None:
        self.address = self.capsys.readouterr().err.removeprefix("live page: ").strip()
        self.reading.start()

    def progress(self, phase: str, done: int, total: int) -> None:
        """What is within a round is in no file."""

    def round_finished(self, line: Mapping[str, Any]) -> None:
        wanted, ends = f"{line['round'] + 1} of {ALL} made", time.monotonic() + 60
        while not any(wanted in page for page in self.read):
            assert time.monotonic() < ends, wanted
            time.sleep(0.05)

    def _read(self) -> None:
        for page in pages(self.address):
            self.read.append(page)


def test_a_run_serves_its_own_page_from_before_its_folder_is_there_to_its_last_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, run = parse_config(CONFIG), tmp_path / "run"
    reader = Reader(capsys)
    with serving_of(config, run, "127.0.0.1:0"):
        assert not run.exists()
        simulate(config, run, listener=reader, report=False)
    reader.reading.join()

    assert 'data-state="finished"' in reader.read[-1]
    assert "Test RMSE" in reader.read[-1]
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
