"""The files of a label in a real browser: legible, and nothing runs in them, whatever a certificate says."""

import os
from pathlib import Path

import pytest

from fedboard.client.guarantee.evidence import Evidence
from fedboard.client.guarantee.label import label_page, verified_label
from tests.client.page.browser import Page
from tests.common.certificates import certificate_of

pytestmark = pytest.mark.slow

AXE = Path(os.environ.get("FEDBOARD_AXE", ""))
MARKUP = "</title></style><script>globalThis.ran = 1</script><img src=x onerror='globalThis.ran = 1'>]]>&lt;"
HOSTILE = (
    f"{MARKUP}{'W' * 90}\u202e",
    "日本語の図書館" * 10 + "﷽" * 8 + "{{style}} {{policy}}" + "Ĥ" + "\u0351" * 60,
    "हिन्दी में लिखा हुआ एक बहुत लंबा वाक्य " * 20,
    "مكتبة عامة " * 60,
    "x" * 2000,
)
KINDS = {
    "private": certificate_of(),
    "hostile": certificate_of(
        dataset=f"{MARKUP}{'W' * 90}\u202e{{{{cards}}}}" + "y" * 3000, trust=(*HOSTILE, *("z" * 5000,) * 40)
    ),
}


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    for name, certificate in KINDS.items():
        text = label_page(verified_label(Evidence(certificate=certificate)))
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_the_page_runs_nothing_asks_for_nothing_and_is_no_wider_than_a_small_screen(
    page: Page, labels: Path, name: str
) -> None:
    page.console(), page.requests()
    place = labels / f"{name}.html"
    page.look(375, "light")
    page.driver.get(place.as_uri())

    wider = "one.getBoundingClientRect().right > document.querySelector('main').getBoundingClientRect().right"
    assert page.js(f"return [...document.querySelectorAll('main *')].filter((one) => {wider}).length") == 0
    assert page.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert (
        page.js("return document.querySelectorAll('script, img, link, iframe, object, a[href]').length") == 0
    )
    assert page.js("return globalThis.ran ?? 0") == 0
    assert page.requests() == [place.as_uri()]
    assert page.console() == []
    policy = page.js("return document.querySelector('meta[http-equiv]').content")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert page.js("return getComputedStyle(document.querySelector('main')).borderTopStyle") == "solid", (
        "styled"
    )


@pytest.mark.skipif(not AXE.is_file(), reason="FEDBOARD_AXE does not name axe.min.js (npm pack axe-core)")
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("name", ["private"])
def test_no_barrier_is_found(page: Page, labels: Path, name: str, width: int) -> None:
    page.look(width, "light")
    page.driver.get((labels / f"{name}.html").as_uri())

    page.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    found, passed = page.awaited(
        "const { violations, passes } = await axe.run(document);"
        "return [violations, passes.map(({ id }) => id)]"
    )

    assert {"color-contrast", "svg-img-alt", "document-title"} <= set(passed), "it looked"
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found] == []
