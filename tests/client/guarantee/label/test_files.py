"""The files of a label in a real browser: legible, and nothing runs in them, whatever a certificate says."""

import os
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from fedboard.client.guarantee.evidence import Evidence
from fedboard.client.guarantee.label.writing import write_label
from fedboard.common.privacy.releases.noise import SeededNoise
from tests.client.page.browser import Page
from tests.common.certificates import SAID, certificate_of

pytestmark = pytest.mark.slow

AXE = Path(os.environ.get("FEDBOARD_AXE", ""))
MARKUP = "</title></style><script>globalThis.ran = 1</script><img src=x onerror='globalThis.ran = 1'>]]>&lt;"
HOSTILE = msgspec.structs.replace(
    SAID,
    name=f"{MARKUP}{'W' * 90}\u202e",
    curators=("日本語の図書館" * 10, "﷽" * 8, "{{style}}", "Ĥ" + "\u0351" * 60),
    intended_use="{{policy}} " + MARKUP,
    unprotected="हिन्दी में लिखा हुआ एक बहुत लंबा वाक्य " * 20,
    refresh="مكتبة عامة " * 60,
    actors="x" * 2000,
)
KINDS = {
    "private": certificate_of(deployment=SAID),
    "simulation": certificate_of(noise=SeededNoise(1)),
    "hostile": certificate_of(
        deployment=HOSTILE, dataset="y" * 3000 + MARKUP, trust=(MARKUP, "z" * 5000) * 40
    ),
}


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    for name, certificate in KINDS.items():
        for suffix in ("svg", "html"):
            write_label(folder / f"{name}.{suffix}", Evidence(certificate=certificate))
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_the_picture_is_sound_xml_in_which_others_have_text_alone(labels: Path, name: str) -> None:
    root = ElementTree.fromstring((labels / f"{name}.svg").read_bytes())

    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds == {"svg", "title", "desc", "style", "rect", "g", "circle", "path", "text"}
    told = {element.tag.rpartition("}")[2]: element.text or "" for element in root}
    assert ("SIMULATION" in told["title"]) == (name == "simulation")
    assert "right at most" in told["desc"]
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "label-title label-told"


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("width", [375, 1280])
def test_every_line_of_the_picture_stays_inside(page: Page, labels: Path, name: str, width: int) -> None:
    page.look(width, "light")
    page.driver.get((labels / f"{name}.svg").as_uri())

    out = page.js(
        "const [, , wide, high] = document.documentElement.getAttribute('viewBox').split(' ').map(Number);"
        "const beyond = ({ x, y, width, height }) => x < 0 || x + width > wide || y + height > high;"
        "return [...document.querySelectorAll('text:not([aria-hidden])')]"
        ".filter((one) => beyond(one.getBBox())).map((one) => one.textContent)"
    )
    sizes = page.js(
        "const shown = document.documentElement.getScreenCTM().a;"
        "return [...document.querySelectorAll('text')].map((one) => shown * Number(one.getAttribute('font-size')))"
    )

    assert out == []
    assert page.js("return document.documentElement.getBoundingClientRect().width") <= min(width, 480)
    assert min(sizes) >= 11, "legible on a small screen"
    assert page.js("return globalThis.ran ?? 0") == 0


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


@pytest.mark.parametrize("name", ["private", "simulation"])
def test_a_simulation_is_red_from_head_to_foot_and_nothing_else_is(
    page: Page, labels: Path, name: str
) -> None:
    page.look(375, "light")
    page.driver.get((labels / f"{name}.html").as_uri())

    bands = page.js(
        "return [...document.querySelectorAll('main > .band')].map((one) => [one.textContent.slice(0, 10),"
        "getComputedStyle(one).backgroundColor, one === one.parentElement.firstElementChild])"
    )
    headings = page.js(
        "return [...document.querySelectorAll('.cards h2, .odds h2')].map((one) => one.textContent)"
    )
    drawn = (labels / f"{name}.svg").read_text(encoding="utf-8")
    if name == "private":
        assert bands == []
        assert "#b3140a" not in drawn
        assert not any("would" in heading for heading in headings)
    else:
        assert [band[:2] for band in bands] == [["SIMULATION", "rgb(179, 20, 10)"]] * 2
        assert bands[0][2], "before anything else"
        assert all("would" in heading for heading in headings)
        assert drawn.count(">SIMULATION<") >= 6, "across the whole sheet"
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        printed = page.js(
            "const style = getComputedStyle(document.querySelector('.band'));"
            "return [style.backgroundColor, style.color, style.borderTopStyle]"
        )
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        assert printed == ["rgb(255, 255, 255)", "rgb(0, 0, 0)", "double"], "told without colour"


@pytest.mark.skipif(not AXE.is_file(), reason="FEDBOARD_AXE does not name axe.min.js (npm pack axe-core)")
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("name", ["private", "simulation"])
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
