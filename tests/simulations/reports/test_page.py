"""The report says what the run directory says, needs nothing else, and hides nothing."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.simulations.reports import write_report

WriteRun = Callable[..., Path]
VOID = {"meta", "br", "link", "img", "hr", "input"}


class Page(HTMLParser):
    """Collects text, ids and references, and insists on balanced tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "xlink:href", "srcset", "data", "action"}:
                self.references.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory, write_run: WriteRun) -> str:
    run = write_run(tmp_path_factory.mktemp("runs") / "first-run")
    path = write_report(run)
    assert path == run / "report.html"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


@pytest.mark.slow
def test_the_page_is_well_formed_and_its_ids_are_unique(page: Page) -> None:
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.slow
def test_the_page_refers_to_nothing_outside_itself(page: Page, html: str) -> None:
    assert page.references
    assert all(reference.startswith("#") for reference in page.references)
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert "http:" not in html
    assert "https:" not in html
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert "default-src 'none'" in html


@pytest.mark.slow
def test_the_headline_states_the_whole_guarantee(page: Page) -> None:
    text = page.text
    for word in ("epsilon 3 ", "delta 1e-05", "unit user", "adjacency add-remove", "secure: AES-256"):
        assert word in text
    assert "Not private." not in text
    assert "The certificate was verified when this page was written" in text


@pytest.mark.parametrize(
    "number",
    [
        "0.9517",
        "0.2345",
        "0.9876",
        "0.8642",
        "1.3100",
        "1.1250",
        "0.4000",
        "20 KiB",
        "512 B",
        "4 KiB",
        "2 min 01 s",
        "30.0 %",
    ],
)
def test_the_numbers_of_the_run_are_in_the_text(page: Page, number: str) -> None:
    assert number in page.text


def test_every_held_out_chart_and_table_is_marked(html: str, page: Page) -> None:
    for title in (
        "Held-out metrics after each round: Validation RMSE (stars)",
        "Test RMSE (stars) by item popularity",
        "Overlap@10",
    ):
        heading = re.search(rf"<h3>{re.escape(title)}[^\n]*</h3>", html)
        assert heading
        assert "not private: simulation only" in heading[0]
    assert "this page contains such numbers" in page.text


def test_text_from_files_is_escaped(html: str, page: Page) -> None:
    assert "<script>" not in html
    assert "gradients <b>per item</b>" in page.text


def test_the_printed_formula_gives_delta(html: str) -> None:
    code = re.search(r"<code>(from math.*?)</code>", html, flags=re.DOTALL)
    assert code
    lines = code[1].replace("&#39;", "'").splitlines()
    expression = re.sub(r"^print\((.*)\)  # at most.*$", r"\1", lines[-1])
    names: dict[str, object] = {}
    exec("\n".join([*lines[:-1], f"result = {expression}"]), names)
    assert names["result"] == pytest.approx(1e-5, rel=1e-6)


def test_seeded_noise_is_announced_loudly(tmp_path: Path, write_run: WriteRun, seeded: NoiseSource) -> None:
    run = write_run(tmp_path / "run", noise=seeded, metrics=None)

    text = Page(write_report(run).read_text(encoding="utf-8")).text

    assert "Not private. The noise of this run is labelled “seeded: simulation only, not private”" in text
    assert "Guarantee with secure noise (not of this run)" in text
    assert "Nothing of this run: its noise is not secure." in text


def test_an_edited_certificate_is_announced_loudly(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", metrics=None)
    path = run / "certificate.json"
    certificate = json.loads(path.read_text())
    certificate["claim"]["epsilon"] = 1.0
    path.write_text(json.dumps(certificate))

    text = Page(write_report(run).read_text(encoding="utf-8")).text

    assert "The certificate does not verify. Do not rely on the claim below" in text
    assert "checks passed" not in text
    assert "Nothing of this run until its certificate verifies." in text


def test_missing_parts_leave_no_empty_sections(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", config=None, metrics=None, baselines=None)

    html = write_report(run).read_text(encoding="utf-8")

    page = Page(html)
    assert page.open == []
    for heading in ("Quality", "Head and tail", "Data and traffic", "Configuration"):
        assert f"<h2>{heading}" not in html
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert "epsilon 3 " in page.text


def test_a_run_without_certificate_is_refused(tmp_path: Path, write_run: WriteRun) -> None:
    run = write_run(tmp_path / "run", certificate=None)

    with pytest.raises(InputError, match=r"has no certificate\.json"):
        write_report(run)


@pytest.mark.slow
def test_the_metric_that_decides_is_shown_by_users_activity(page: Page) -> None:
    assert "few-and-many" in page.ids
    assert (
        "RMSE (stars) is 1.0200 on users with the fewest ratings and 0.9300 on those with the most"
        in page.text
    )
    assert page.text.count("by users' activity") == 1
