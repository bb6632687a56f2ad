"""The board page in a real browser: what it recommends, what it keeps, what it asks of the network."""

import base64
import math
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.client.ratings.own_file import read_own_ratings, write_ratings
from fedboard.client.ratings.store import OwnRating
from fedboard.client.recommending.recommend import explain, nearest_items, rating_range_of, recommend
from fedboard.common.algorithms.adadpals.config import AdaDpalsConfig
from fedboard.common.algorithms.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.algorithms.langevin.algorithm import LangevinConfig
from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.shared.ratings_config import Feedback, RatingsConfig, as_written
from fedboard.common.algorithms.topk.device import TopKConfig
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.item_features import CatalogueFeatures
from tests.client.page.browser import NEEDS_AXE, Page
from tests.client.page.pages import Signed, carrying, edited, titled, unsigned_page
from tests.common.boards.boards import certified, chain, first_board

pytestmark = pytest.mark.slow

N_USERS, K = 200, 10
PASSED = dict.fromkeys(("signature", "bytes", "chain", "promise", "noise"), "passed")
IMPLICIT = RatingsConfig(feedback=Feedback.IMPLICIT)
SETTINGS: dict[str, tuple[str, Any]] = {
    "residual": ("residual", ResidualConfig(rank=4, user_ridge=2.0, user_bias_ridge=3.0)),
    "residual-last": ("residual", ResidualConfig(rank=4, rounds=2, final_user_ridge=7.0)),
    "residual-spread": ("residual", ResidualConfig(rank=4, user_ridge=2.0)),
    "residual-chosen": ("residual", ResidualConfig(rank=4, user_ridge=2.0)),
    "residual-spread-last": ("residual", ResidualConfig(rank=4, rounds=2, final_user_ridge=7.0)),
    "residual-content": ("residual", ResidualConfig(rank=4, user_ridge=2.0, user_bias_ridge=3.0)),
    "residual-presence": ("residual", ResidualConfig(rank=4, shared=IMPLICIT, unobserved_weight=0.1)),
    "adadpals": ("adadpals", AdaDpalsConfig(rank=4, user_ridge=0.5)),
    "adadpals-presence": ("adadpals", AdaDpalsConfig(rank=4, shared=IMPLICIT, unobserved_weight=0.2)),
    "adadpsgd": ("adadpsgd", AdaDpsgdConfig(rank=4)),
    "topk": ("topk", TopKConfig(shared=IMPLICIT)),
    "langevin": ("langevin", LangevinConfig(rank=4)),
}


def board_of(case: str) -> Board:
    """A board of a task, with made-up numbers and some items that are not learnt."""
    task, settings = SETTINGS[case]
    rng = np.random.default_rng(7)
    board = first_board(version=4)
    learnt = np.array(board.arrays["learnt"])
    learnt[::11] = 0
    biases = rng.normal(scale=0.4, size=learnt.size).astype(np.float32)
    if settings.shared.feedback is Feedback.IMPLICIT:
        biases[:] = 0
    arrays = {**board.arrays, "learnt": learnt, "item_biases": biases}
    if "spread" in case or case.endswith("chosen"):
        arrays["spread"] = np.array([0.6])
    if case.endswith("chosen") or case.endswith("spread-last"):  # with the last board another one is stated
        arrays["user_ridge"] = np.array([4.3])
    if task == "topk":
        arrays["item_scale"] = rng.uniform(0.1, 2.0, size=learnt.size).astype(np.float32)
        arrays["item_biases"] = rng.normal(size=learnt.size).astype(np.float32)
    catalogue = replace(board.catalogue, features=features(learnt.size) if case.endswith("content") else None)
    config = as_written(settings)
    return replace(board, task=task, config=config, arrays=arrays, catalogue=catalogue, _digest=[])


def features(n_items: int) -> CatalogueFeatures:
    """Two numbers and a few labels, some unknown."""
    rng = np.random.default_rng(9)
    numbers = np.column_stack([rng.integers(1920, 2020, n_items), rng.normal(size=n_items)]).astype(
        np.float32
    )
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    labels = (rng.random((n_items, 5)) < 0.3).astype(np.uint8)
    return CatalogueFeatures(
        number_names=("year", "mood"), numbers=numbers, label_names=tuple("abcde"), labels=labels
    )


def people(board: Board) -> list[Cohort]:
    """Made-up people with 1 to 25 ratings, and a few with many more."""
    rng, allowed = np.random.default_rng(3), rating_range_of(board)
    made = []
    for number in range(N_USERS):
        size = rng.integers(1, 26) if number % 20 else board.catalogue.n_items // 2
        items = np.sort(rng.choice(board.catalogue.n_items, size=size, replace=False))
        ratings = rng.integers(2, 11, size=items.size) / 2 if allowed else np.ones(items.size)
        made.append(
            Cohort(
                indptr=np.array([0, items.size], dtype=np.int64),
                items=items.astype(np.int32),
                ratings=ratings.astype(np.float32),
                n_items=board.catalogue.n_items,
            )
        )
    return made


LISTS = """
const [content, range, people, k] = arguments;
const board = inside.readBoard(Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0)));
const model = inside.modelOf(board);
return people.map((ratings) => {
  const rated = new Map(ratings);
  const list = inside.ownList(board, model, range, rated);
  const items = Int32Array.from([...rated.keys()].sort((one, other) => one - other));
  const own = model(items, Float64Array.from(items, (item) => rated.get(item)));
  const entries = list.entries(k, new Set());
  return {
    entries,
    added: Array.from(own.influences(entries[0].item)),
    all: Array.from(list.scores, list.held),
  };
});
"""


@pytest.mark.parametrize("case", SETTINGS)
def test_lists_are_those_of_the_device_for_random_people(page: Page, signed: Signed, case: str) -> None:
    page.open(signed.page)
    board = board_of(case)
    cohorts = people(board)
    content = base64.b64encode(board.to_bytes()).decode()
    given = [list(zip(own.items.tolist(), own.ratings.tolist(), strict=True)) for own in cohorts]

    found = page.js(LISTS, content, rating_range_of(board), given, K)

    assert len(found) == N_USERS
    for own, made in zip(cohorts, found, strict=True):
        wanted = recommend(own, board, k=K)
        scores = [entry["score"] for entry in made["entries"]]
        np.testing.assert_allclose(scores, [one.score for one in wanted], rtol=0, atol=1e-6)
        # Where the device, whose ranking is of 32 bits, has another item, it is as good.
        for entry, one in zip(made["entries"], wanted, strict=True):
            item = board.catalogue.item_ids.index(one.item_id)
            assert abs(made["all"][item] - entry["score"]) <= 1e-6
            assert board.arrays["learnt"][entry["item"]]
            assert entry["item"] not in own.items


@pytest.mark.parametrize("case", ["residual", "residual-content", "adadpals", "adadpals-presence"])
def test_reasons_are_those_of_the_device(page: Page, signed: Signed, case: str) -> None:
    page.open(signed.page)
    board = board_of(case)
    cohorts = people(board)[:20]
    given = [list(zip(own.items.tolist(), own.ratings.tolist(), strict=True)) for own in cohorts]

    found = page.js(LISTS, base64.b64encode(board.to_bytes()).decode(), rating_range_of(board), given, 1)

    for own, made in zip(cohorts, found, strict=True):
        entry = made["entries"][0]
        told, ids = explain(own, board, entry["item"]), board.catalogue.item_ids
        added = {one.item_id: one.added for one in told.influences}
        np.testing.assert_allclose(
            made["added"], [added[ids[item]] for item in own.items], rtol=1e-5, atol=1e-6
        )
        reason, wanted = entry["reason"], told.reason
        rated = None if reason["rated"] is None else ids[own.items[reason["rated"]]]
        assert (reason["effect"], rated) == (wanted.effect, wanted.item_id)
        assert math.isclose(reason["net"], wanted.net, rel_tol=1e-5, abs_tol=1e-6)


def test_the_digest_of_a_board_with_features_is_the_servers(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    board = board_of("residual-content")
    content = base64.b64encode(board.to_bytes()).decode()

    found = page.awaited(
        "const bytes = Uint8Array.from(atob(given[0]), (sign) => sign.charCodeAt(0));"
        "return await inside.boardDigest(inside.readBoard(bytes))",
        content,
    )

    assert found == board.digest


def test_neighbours_are_those_of_the_command(page: Page, signed: Signed) -> None:
    page.open(signed.page)

    found = page.js(
        "const { values, shape } = fedboard.board.arrays.item_factors;"
        "return inside.neighbours(values, shape[1], 5, 6)"
    )

    wanted = nearest_items(signed.newest, 5, k=6)
    ids = signed.newest.catalogue.item_ids
    assert [ids[one["item"]] for one in found] == [one.item_id for one in wanted]
    np.testing.assert_allclose([one["cosine"] for one in found], [one.cosine for one in wanted], atol=1e-9)


def test_a_board_of_an_unknown_model_is_refused_in_words(page: Page, signed: Signed) -> None:
    other = certified(replace(signed.newest, task="somebodys-own", certificate=None, _digest=[]))

    def unsigned(data: dict[str, Any]) -> None:
        data["board"] |= {"signed": None, "earlier": [], "oldest": None}
        carrying(data["board"], other.to_bytes())

    page.open(edited(signed.page, unsigned, "unknown"))

    assert page.js("return document.querySelector('#app').hidden")
    assert "does not know the own model of boards that the task somebodys-own made" in page.text(
        "#trouble-words"
    )


def test_titles_of_others_are_text_and_nothing_else(page: Page, folder: Path) -> None:
    hostile = "</script><script>window.taken = 1</script><img src=x onerror='window.taken = 2'>"
    board = certified(titled(chain(1)[0], lambda item: f"{hostile} {{{{script}}}} <b>{item}</b>"))
    page.open(unsigned_page(folder / "hostile", board, label=hostile))
    page.js(
        "fedboard.taste.rate(3, 5); fedboard.taste.hide(4);"
        "document.querySelector('.entry .actions button:nth-child(3)').click()"
    )

    assert page.js("return window.taken ?? null") is None
    assert page.js("return document.querySelectorAll('img, b').length") == 0
    assert page.js("return document.scripts.length") == 2
    assert hostile in page.text("#list .entry-title")
    assert page.text(".eyebrow") == hostile
    assert page.console() == []


def test_nothing_is_asked_of_the_network_and_nothing_is_logged(page: Page, signed: Signed) -> None:
    page.console()
    page.open(signed.page)
    assert page.requests()[-1] == signed.page.as_uri()  # the record is one of this very page

    page.js(
        "const { taste } = fedboard; for (let item = 0; item < 30; item++) taste.rate(item, 1 + item % 5);"
        "taste.hide(50); taste.show(50); taste.wait(60); document.querySelector('#more').click();"
        "document.querySelector('.entry .actions button:nth-child(3)').click();"
        "document.querySelector('#erase').click()"
    )

    assert page.requests() == []
    assert page.console() == []


def test_its_policy_forbids_what_it_does_not_try(page: Page, signed: Signed) -> None:
    """Also to somebody who runs code in it."""
    page.open(signed.page)

    refused = page.awaited(
        "return fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => `${error}`.slice(0, 9))"
    )
    page.js(
        "const s = document.createElement('script'); s.textContent = 'window.taken = 1'; document.body.append(s)"
    )

    assert refused == "TypeError"
    assert page.js("return window.taken ?? null") is None
    told = page.console()
    assert any("connect-src" in line for line in told)
    assert any("script-src" in line for line in told)
    assert page.requests()[1:] == []


def test_titles_are_found_whatever_their_accents_and_the_order_of_words(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    titles = [
        "Amélie (2001)",
        "Le Fabuleux Destin",
        "Heat (1995)",
        "The Heat of Noon",
        "Überfall",
        "Straße",
        "Sør",
        "東京物語",
    ]
    asked = [
        "amelie",
        "2001 AME",
        "destin fab",
        "heat",
        "uber",
        "strasse",
        "sor",
        "東京",
        "7",
        "nothing of it",
        " ",
    ]

    found = page.js(
        "const ids = arguments[0].map((_, n) => `${n}`);"
        "const search = inside.titleSearch(arguments[0], ids, [1, 1, 1, 9, 1, 1, 1, 1]);"
        "return arguments[1].map((typed) => search(typed, 3))",
        titles,
        asked,
    )

    assert found == [[0], [0], [1], [2, 3], [4], [5], [6], [7], [7], [], []]


def test_ratings_go_out_and_in_as_the_commands_read_and_write_them(
    page: Page, signed: Signed, tmp_path: Path
) -> None:
    page.open(signed.page)
    catalogue = signed.newest.catalogue
    given = {3: 5.0, 7: 2.5, 11: 1.0}

    written = page.js(
        "const { ids, titles } = fedboard.board;"
        "return inside.writtenRatings(new Map(arguments[0]), ids, titles)",
        list(given.items()),
    )

    file = tmp_path / "my-ratings.csv"
    file.write_text(written, encoding="utf-8")
    own = read_own_ratings(file, catalogue, rating_range=(1.0, 5.0))
    assert dict(zip(own.items.tolist(), own.ratings.tolist(), strict=True)) == given
    text = StringIO()
    board_ratings = [
        OwnRating(item=catalogue.item_ids[item], rating=rating) for item, rating in given.items()
    ]
    write_ratings(text, board_ratings, board=signed.newest)
    more = f'{text.getvalue()}"Title of item 20 (1920)",4\nnot there,3\n30,9\n'
    found = page.js(
        "const { ids, titles } = fedboard.board;"
        "const { ratings, left } = inside.readRatings(arguments[0], ids, titles, [1, 5]);"
        "return [[...ratings], left]",
        more,
    )
    assert dict(found[0]) == given | {20: 4.0}
    assert found[1] == ["Line 6: not on this board.", "Line 7: a rating must be a number from 1 to 5."]


def test_ratings_are_kept_only_where_that_is_asked_for_and_erased_for_good(
    page: Page, signed: Signed
) -> None:
    def kept() -> list[Any]:
        page.open(signed.page)
        return page.js("return [...fedboard.taste.ratings]")

    page.open(signed.page)
    page.js("fedboard.taste.rate(2, 4)")
    assert kept() == []

    page.js("document.querySelector('#keep').click(); fedboard.taste.rate(2, 4); fedboard.taste.hide(9)")
    assert kept() == [[2, 4]]
    assert page.js("return [...fedboard.taste.hidden]") == [9]

    page.js("document.querySelector('#erase').click()")
    assert kept() == []
    assert page.js("return document.querySelector('#keep').checked") is False


def test_everything_can_be_done_with_the_keyboard(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    keys = pytest.importorskip("selenium.webdriver").Keys
    field = page.driver.find_element("id", "find")

    field.send_keys("item 7")
    page.until("return document.querySelectorAll('#found li').length > 1")
    field.send_keys(keys.ARROW_DOWN, keys.ENTER)
    chosen = page.js("return document.activeElement.closest('li')?.dataset.item")
    page.driver.switch_to.active_element.send_keys(keys.ARROW_RIGHT)

    assert chosen is not None
    assert page.js("return [...fedboard.taste.ratings.keys()].map(String)") == [chosen]
    assert page.text("#list-told").startswith("From 1 rating of yours")
    before = page.js("return document.querySelector('.entry').dataset.item")
    button = page.driver.find_elements("css selector", ".entry .actions button")[1]
    button.send_keys(keys.ENTER)
    assert page.js("return document.querySelector('.entry').dataset.item") != before
    assert page.js("return document.activeElement.closest('.entry') !== null"), "the focus stays in the list"
    page.driver.find_element("css selector", "#toast button").send_keys(keys.ENTER)
    assert page.js("return document.querySelector('.entry').dataset.item") == before


@NEEDS_AXE
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        *((375, "light"), (1280, "dark")),
        *(pytest.param(*other, marks=pytest.mark.thorough) for other in ((375, "dark"), (1280, "light"))),
    ],
)
def test_no_barrier_is_found_at_either_width(page: Page, signed: Signed, width: int, scheme: str) -> None:
    page.open(signed.page)
    page.js("fedboard.taste.rate(2, 4); fedboard.taste.wait(5); fedboard.taste.hide(9)")
    page.js("document.querySelector('.entry .actions button:nth-child(3)').click()")
    page.js("document.querySelector('details').open = true")
    page.look(width, scheme)

    found, passed = page.barriers()

    page.look(1280, "light")
    assert {"color-contrast", "label", "button-name"} <= set(passed), "it looked"
    assert found == []
    page.console()


def test_nothing_is_wider_than_a_small_screen(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    page.js("fedboard.taste.rate(2, 4); fedboard.taste.wait(5); fedboard.taste.hide(9)")

    page.look(375, "light")
    wider = page.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    small = page.js(
        "return [...document.querySelectorAll('button:not(.link), .button, summary, .stars label, label.check')]"
        ".map((one) => one.getBoundingClientRect()).filter((box) => box.height && box.height < 24).length"
    )
    page.look(1280, "light")

    assert wider <= 0
    assert small == 0, "a finger needs 24 pixels"


def test_stars_are_on_the_range_of_the_set(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    steps = {
        (1, 5): [1, 2, 3, 4, 5],
        (0.5, 5): [0.5 * n for n in range(1, 11)],
        (1, 10): list(range(1, 11)),
        (0, 100): list(range(0, 101, 10)),
        (-10, 10): list(range(-10, 11, 2)),
    }

    assert page.js("return arguments[0].map(inside.ratingSteps)", list(steps)) == list(steps.values())


def test_presence_is_told_and_not_rated(page: Page, folder: Path) -> None:
    page.open(unsigned_page(folder / "presence", certified(board_of("adadpals-presence"))))

    page.js("document.querySelector('#known button').click()")

    assert page.text("#list-told").startswith("From 1 title of yours")
    assert page.js("return document.querySelectorAll('.stars, .bar').length") == 0
    assert page.js("return document.querySelectorAll('#own li').length") == 1
    assert page.text(".entry .why").startswith("because you liked Title of item ")
    assert page.console() == []
