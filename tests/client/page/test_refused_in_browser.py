"""What a page shows of a board that fails a check or cannot be checked, and where its own script is cut off."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.common.board import Board
from fedboard.common.boards.layout import pack
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.noise import SeededNoise
from tests.client.page.browser import Page
from tests.client.page.pages import Signed, carrying, edited, titled, unsigned_page
from tests.common.boards.boards import certified, chain
from tests.common.certificates import questions

pytestmark = pytest.mark.slow

FORGED = "Forged title"
WATCH = f"""
globalThis.shown = [];
const look = () => {{
  const app = document.querySelector("#app");
  if (app !== null && !app.hidden) shown.push("the board");
  if (document.body?.innerText.includes("{FORGED}")) shown.push("a title");
}};
const all = {{ subtree: true, childList: true, attributes: true, characterData: true }};
new MutationObserver(look).observe(document, all);
"""
"""Looks at every change of the page, from before its first byte on."""


@contextmanager
def before_the_page(page: Page, script: str) -> Iterator[None]:
    """Run a script in every page that is opened, before anything of it."""
    started = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
    try:
        yield
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", started)


def forged(board: Board) -> Board:
    """With other titles and other factors, and the certificate that it had."""
    other = titled(board, lambda item: f"{FORGED} {item}")
    return other.with_certificate(board.certificate)


def signed_again(signed: Signed, /, **stated: Any) -> Callable[[dict[str, Any]], None]:
    """By whoever has the key, and states something else."""

    def change(data: dict[str, Any]) -> None:
        content = msgspec.structs.replace(signed.link(4).manifest, **stated).to_bytes().decode()
        data["board"]["signed"] = msgspec.to_builtins(signed.cosigned(content))

    return change


def forged_board(data: dict[str, Any], signed: Signed) -> None:
    carrying(data["board"], forged(signed.newest).to_bytes())


def forged_and_certified(data: dict[str, Any], signed: Signed) -> None:
    """Its certificate is for this very board; what was signed is not."""
    board = forged(signed.newest)
    carrying(data["board"], certified(board).to_bytes())


def forged_signature(data: dict[str, Any], signed: Signed) -> None:
    forged_and_certified(data, signed)
    data["board"]["signed"]["signatures"] = ["0" * 128]


def forged_certificate(data: dict[str, Any], signed: Signed) -> None:
    """Nobody signed it, and its certificate claims less than its releases cost."""
    board = certified(forged(signed.newest))
    plain = json.loads(json.dumps(board.certificate))
    plain["claim"]["epsilon"] = 0.1
    plain["digest"] = digest({key: value for key, value in plain.items() if key != "digest"})
    data["board"] |= {"signed": None, "earlier": [], "oldest": None}
    carrying(data["board"], board.with_certificate(plain).to_bytes())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (forged_board, "bytes are not those that were signed"),
        (forged_and_certified, "bytes are not those that were signed"),
        (forged_signature, "the signature is not this key's"),
        (forged_certificate, "The certificate does not hold"),
    ],
)
def test_nothing_of_a_board_that_fails_a_check_is_ever_shown(
    page: Page, signed: Signed, change: Any, why: str
) -> None:
    changed = edited(signed.page, lambda data: change(data, signed), f"refused-{change.__name__}")

    with before_the_page(page, WATCH):
        page.open(changed)

    assert page.js("return shown") == []
    assert page.text("#trouble-head") == "Refused: nothing of this board is shown"
    assert why in page.text("#trouble-words")
    assert page.js("return document.querySelector('#trouble').checkVisibility()")
    assert page.js("return document.querySelectorAll('#list li, #known li').length") == 0
    assert page.console() == []


def test_the_watch_sees_a_board_that_is_shown(page: Page, folder: Path) -> None:
    """The same look, at a page that nobody signed: it finds board and titles."""
    board = certified(forged(chain(1)[0]))

    with before_the_page(page, WATCH):
        page.open(unsigned_page(folder / "watched", board))

    page.until("return shown.includes('the board') && shown.includes('a title')")


def test_a_simulation_that_was_signed_as_private_is_refused(page: Page, folder: Path) -> None:
    seeded = Signed(folder / "seeded-private", seeded=True)

    with before_the_page(page, WATCH):
        page.open(edited(seeded.page, signed_again(seeded, protection="private"), "as-private"))

    assert page.js("return shown") == []
    assert page.text("p.verdict .verdict-words") == "The seal is broken"
    assert "signature says something else of its noise" in page.text("#trouble-words")


@pytest.mark.parametrize(
    ("now", "since", "until", "badge", "sentence"),
    [
        (None, "2025-01-01", "2026-01-01", "Out of date", "was good until 2026-01-01T00:00:00Z"),
        (
            "2023-05-04",
            "2026-05-04",
            "2126-01-01",
            "Not valid yet",
            "clock of this device says 2023-05-04: set",
        ),
    ],
)
def test_a_board_that_is_out_of_date_is_refused_and_a_clock_that_is_behind_is_named(
    page: Page, signed: Signed, now: str | None, since: str, until: str, badge: str, sentence: str
) -> None:
    change = signed_again(signed, signed=f"{since}T00:00:00Z", expires=f"{until}T00:00:00Z")
    clock = "" if now is None else f"Date.now = () => Date.parse('{now}T12:00:00Z');"

    with before_the_page(page, WATCH + clock):
        page.open(edited(signed.page, change, f"time-{until}"))

    assert page.js("return shown") == []
    assert page.seal()[1]["signature"] == "failed"
    assert page.text("p.verdict .verdict-words").startswith(badge)
    told = page.text("#trouble-words")
    assert sentence in told
    assert ("was good until" in told) == (now is None)


def not_recomputed(board: Board) -> Board:
    """With a certificate that the page cannot recompute."""
    plain = json.loads(questions().to_json()) | {"board_digest": board.digest}
    plain["digest"] = digest({key: value for key, value in plain.items() if key != "digest"})
    return board.with_certificate(plain)


def beyond_the_page(folder: Path) -> Path:
    return unsigned_page(folder / "not-recomputed", not_recomputed(chain(1)[0]))


def signed_beyond_the_page(folder: Path) -> Path:
    signed = Signed(folder / "signed-not-recomputed")
    board = not_recomputed(signed.newest)
    content = board.to_bytes()
    file = signed.link(4).manifest.file
    held = {"board_sha256": sha256(content).hexdigest(), "board_size": len(content)}
    again = signed_again(
        signed,
        certificate_digest=board.certificate["digest"],
        releases=len(board.certificate["releases"]),
        ledger_head=board.certificate["ledger_head"],
        file=msgspec.structs.replace(file, **held),
    )

    def change(data: dict[str, Any]) -> None:
        carrying(data["board"], content)
        again(data)
        data["board"]["earlier"] = []  # whose ledger this one does not continue

    return edited(signed.page, change, "signed-not-recomputed")


@pytest.mark.parametrize(
    ("made", "head", "words"),
    [
        (
            lambda folder: unsigned_page(folder / "nobody", chain(1)[0]),
            "Not verified: Not signed",
            "No signature is in this page",
        ),
        (beyond_the_page, "Not verified: Not signed", "Anybody may have made what stands below"),
        (
            lambda folder: Signed(folder / "trial", seeded=True).page,
            "Not private: a simulation",
            "can be reproduced from its seed",
        ),
        (
            lambda folder: unsigned_page(folder / "own-trial", chain(1, noise=(SeededNoise(0),))[0]),
            "Not private: a simulation",
            "No signature is in this page",
        ),
        (
            signed_beyond_the_page,
            "Not verified: Signed, not all recomputed",
            "which this page does not compute",
        ),
    ],
)
def test_a_check_that_cannot_be_made_is_said_above_the_board(
    page: Page, folder: Path, made: Callable[[Path], Path], head: str, words: str
) -> None:
    page.open(made(folder))

    assert page.text("#trouble-head") == head
    assert words in page.text("#trouble-words")
    nobody = page.seal()[1]["signature"] == "open"
    assert ("Anybody may have made" in page.text("#trouble-words")) == nobody
    boxes = page.js(
        "return ['#trouble', '#app'].map((place) => document.querySelector(place).getBoundingClientRect())"
    )
    assert boxes[0]["height"] > 60
    assert boxes[0]["bottom"] <= boxes[1]["top"]
    assert boxes[0]["width"] >= boxes[1]["width"]
    assert page.js("return document.querySelectorAll('#list li').length") == 10


def test_a_sound_board_has_no_banner_and_the_page_does_not_vouch_for_its_own_scripts(
    page: Page, signed: Signed
) -> None:
    page.open(signed.page)

    assert page.js("return document.querySelector('#trouble').hidden")
    assert page.js("return document.querySelector('#stuck')") is None
    assert "cannot vouch for its own scripts" in page.text("#seal")


def cut_in_the_data(text: str) -> str:
    return text[: text.index('id="data">') + 200]


def cut_in_the_script(text: str) -> str:
    return text[: text.index('<script type="module">') + 3000]


def blocked(text: str) -> str:
    """One sign of the script: it is no longer the one that the page's policy allows."""
    return text.replace("Sealed and private", "Sealed and Private")


def fails_at_its_start(text: str) -> str:
    """The data are no JSON: which the script says itself."""
    return text.replace('id="data">{', 'id="data">')


@pytest.mark.parametrize("spoilt", [cut_in_the_data, cut_in_the_script, blocked])
def test_a_script_that_was_cut_off_or_blocked_is_noticed_by_the_markup(
    page: Page, signed: Signed, spoilt: Callable[[str], str]
) -> None:
    text = signed.page.read_text(encoding="utf-8")
    path = signed.page.with_name(f"{spoilt.__name__}.html")
    path.write_text(spoilt(text), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text

    page.driver.get(path.as_uri())

    style = "getComputedStyle(document.querySelector('#stuck'))"
    assert 0 < float(page.js(f"return {style}.animationDelay").removesuffix("s")) <= 5
    page.until(f"return {style}.visibility === 'visible'")
    assert "its script was cut" in page.text("#stuck")
    assert page.js("return document.querySelector('#app').hidden")
    assert "ready" not in page.js("return document.documentElement.dataset")
    page.console()


def test_data_that_cannot_be_read_are_refused_by_the_script(page: Page, signed: Signed) -> None:
    path = signed.page.with_name("spoilt-data.html")
    path.write_text(fails_at_its_start(signed.page.read_text(encoding="utf-8")), encoding="utf-8")

    page.open(path)

    assert page.text("#trouble-head").startswith("Refused")
    assert page.js("return document.querySelector('#stuck')") is None


def test_the_page_holds_what_it_carries_as_base64_and_no_title_in_its_markup(signed: Signed) -> None:
    text = signed.page.read_text(encoding="utf-8")
    titles = signed.newest.catalogue.titles or ()

    assert not any(title in text for title in titles)
    assert base64.b64encode(pack(signed.newest.to_bytes())).decode() in text
