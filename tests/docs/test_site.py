"""The site: built once, as anybody builds it, then looked at, as files and in a browser.

Of the notebooks the first one is run each time, beside the lines of the first page, and all with ``--thorough``.
"""

import functools
import http.server
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.client.page.browser import NEEDS_AXE, Page
from tests.docs.website import DOCS, module, require_generator
from tests.thorough import is_thorough

pytestmark = pytest.mark.slow

LOOKED_AT = (
    "index.html",
    *(
        pytest.param(page, marks=pytest.mark.thorough)
        for page in ("guide/privacy.html", "api/questions.html", "api/runs.html", "notebooks/first-run.html")
    ),
)
NOTEBOOKS = sorted(source.stem for source in (DOCS / "notebooks").glob("*.py"))
RUN = NOTEBOOKS if is_thorough() else ["first-run"]
NARROW, WIDE = 375, 1280
RESULTS = "return [...document.querySelectorAll('*')].filter((one) => one.shadowRoot)"
RESULTS += ".flatMap((one) => [...one.shadowRoot.querySelectorAll('a')]).map((link) => link.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_generator()
    out = tmp_path_factory.mktemp("site") / "built"
    command = [sys.executable, str(DOCS / "build.py"), "--out", str(out)]
    command += [] if is_thorough() else ["--notebooks", *RUN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return out


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = [page for page in DOCS.rglob("*.md") if "website" not in page.parts]

    assert len(pages) > 40
    for page in pages:
        assert (site / page.relative_to(DOCS).with_suffix(".html")).is_file(), page
    for name in ("changelog.html", "contributing.html", "decisions.html", "commands.html", "board.html"):
        assert (site / name).is_file()


def test_nothing_leads_nowhere_and_no_other_host_is_asked(site: Path) -> None:
    assert module("checks").faults(site) == []
    for page in site.rglob("*.html"):
        if page.name != "board.html":  # which has a stricter one of its own
            assert "Content-Security-Policy" in page.read_text(encoding="utf-8"), page


def test_notebooks_have_run_and_can_be_downloaded(site: Path) -> None:
    from nbformat import read, validate

    assert sorted(found.stem for found in (site / "notebooks").glob("*.ipynb")) == NOTEBOOKS
    assert len(NOTEBOOKS) == 8
    for name in NOTEBOOKS:
        notebook = read(site / "notebooks" / f"{name}.ipynb", as_version=4)
        validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        shown = (site / "notebooks" / f"{name}.html").read_text(encoding="utf-8")
        assert f'href="{name}.ipynb"' in shown
        assert {bool(cell.execution_count) for cell in code} == {name in RUN}
        assert ('class="output' in shown) == (name in RUN)
        assert sum(bool(cell.outputs) for cell in code) >= (3 if name in RUN else 0)


def test_lists_tables_and_code_are_those_of_a_code_host(site: Path) -> None:
    """The generator's Markdown is not quite a code host's: what is a list on one must be one on the other."""
    from markdown_it import MarkdownIt

    commonmark = MarkdownIt("commonmark").enable("table")
    written = (DOCS, *(DOCS / name for name in ("guide", "paths")))
    for page in (page for folder in written for page in folder.glob("*.md")):
        expected = commonmark.render(page.read_text(encoding="utf-8"))
        built = (site / page.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
        article = built.partition("<article")[2].partition("</article>")[0]
        for tag in ("<li>", "<ol", "<table>", "<pre>"):
            assert article.count(tag) == expected.count(tag), f"{page}: {tag}"


def test_the_reference_has_the_whole_face(site: Path) -> None:
    import fedboard

    told = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    for name in set(fedboard.__all__) - {"errors"}:
        assert f'id="fedboard.{name}"' in told, name
    for name in ("common.task.Task", "common.protocol.AggregationProtocol", "common.errors.InputError"):
        assert f'id="fedboard.{name}"' in told, name


@pytest.mark.parametrize("served", [False, True], ids=["from-disk", "from-a-server"])
def test_a_reader_finds_things_and_no_other_host_hears_of_it(site: Path, page: Page, served: bool) -> None:
    handler = functools.partial(QuietHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            here = f"http://127.0.0.1:{server.server_port}" if served else site.as_uri()
            page.requests()
            page.look(WIDE, "light")
            page.driver.get(f"{here}/guide/index.html")
            page.until("return document.querySelector('.md-search__button')")
            page.js("document.querySelector('.md-search__button').click()")
            page.until("return document.activeElement.shadowRoot?.activeElement?.tagName === 'INPUT'")
            page.driver.switch_to.active_element.send_keys("secure-sum")
            found = page.until(f"{RESULTS}.filter((link) => link.includes('protocols.html'))")
            assert found
            assert all(link.startswith(here) for link in found)
            assert [asked for asked in page.requests() if not asked.startswith((here, "chrome"))] == []
            assert page.console() == []
        finally:
            server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("name", LOOKED_AT)
def test_pages_fit_a_phone(site: Path, page: Page, name: str) -> None:
    page.look(NARROW, "light")
    page.driver.get((site / name).as_uri())

    assert page.js("return document.documentElement.scrollWidth") <= NARROW


def test_the_board_on_the_first_page_works(site: Path, page: Page) -> None:
    page.look(WIDE, "light")
    page.driver.get((site / "index.html").as_uri())
    page.js("document.querySelector('iframe.board').scrollIntoView()")
    page.driver.switch_to.frame(page.driver.find_element("css selector", "iframe.board"))
    try:
        page.until("return 'ready' in document.documentElement.dataset")
        _, steps = page.seal()
    finally:
        page.driver.switch_to.default_content()

    assert steps["promise"] == "passed"


@NEEDS_AXE
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", LOOKED_AT)
def test_pages_have_no_barriers(site: Path, page: Page, name: str, scheme: str) -> None:
    page.look(WIDE, scheme)
    page.driver.get((site / name).as_uri())
    page.js("document.body.dataset.mdColorScheme = arguments[0] === 'dark' ? 'slate' : 'default'", scheme)

    found, passed = page.barriers()

    assert "color-contrast" in passed
    assert [barrier for barrier in found if barrier[1] in ("serious", "critical")] == []
