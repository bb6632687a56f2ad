"""The board page in a real browser: what it recommends, what its seal says, what it asks of the network."""

import base64
import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.client.page.joining import known_tasks
from fedboard.client.recommending.explain import explain
from fedboard.client.recommending.neighbours import nearest_items
from fedboard.client.recommending.recommend import rating_range_of, recommend
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.privacy.accounting.exact import delta_of, epsilon_of, mu_for
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.shared.ratings_config import Feedback, RatingsConfig
from fedboard.common.tasks.shared.written import as_written
from tests.client.page.browser import Page, opened
from tests.client.page.pages import Signed, carrying, claiming, edited, titled, unsigned_page
from tests.common.board_service.boards import certified, chain, first_board

pytestmark = pytest.mark.slow

N_USERS, K = 200, 10
PASSED = dict.fromkeys(("signature", "bytes", "chain", "promise", "noise"), "passed")
IMPLICIT = RatingsConfig(feedback=Feedback.IMPLICIT)
SETTINGS: dict[str, tuple[str, Any]] = {
    "residual": ("residual", ResidualConfig(rank=4, user_ridge=2.0, user_bias_ridge=3.0)),
    "residual-last": ("residual", ResidualConfig(rank=4, rounds=2, final_user_ridge=7.0)),
    "residual-presence": ("residual", ResidualConfig(rank=4, shared=IMPLICIT, unobserved_weight=0.1)),
    "adadpals": ("adadpals", AdaDpalsConfig(rank=4, user_ridge=0.5)),
    "adadpals-presence": ("adadpals", AdaDpalsConfig(rank=4, shared=IMPLICIT, unobserved_weight=0.2)),
    "adadpsgd": ("adadpsgd", AdaDpsgdConfig(rank=4)),
    "langevin": ("langevin", LangevinConfig(rank=4)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    with opened(folder / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def signed(folder: Path) -> Signed:
    return Signed(folder / "signed")


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
    return replace(board, task=task, config=as_written(settings), arrays=arrays, _digest=[])


def people(board: Board) -> list[Cohort]:
    """Made-up people with 1 to 25 ratings."""
    rng, allowed = np.random.default_rng(3), rating_range_of(board)
    made = []
    for _ in range(N_USERS):
        items = np.sort(rng.choice(board.catalogue.n_items, size=rng.integers(1, 26), replace=False))
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
const board = fedboard.readBoard(Uint8Array.from(atob(content), (sign) => sign.charCodeAt(0)));
const model = fedboard.modelOf(board);
return people.map((ratings) => {
  const rated = new Map(ratings);
  const list = fedboard.ownList(board, model, range, rated);
  const items = Int32Array.from([...rated.keys()].sort((one, other) => one - other));
  const own = model.fit(items, Float64Array.from(items, (item) => rated.get(item)));
  const entries = list.entries(k, new Set());
  return {
    entries,
    added: Array.from(model.influences(own, entries[0].item)),
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
            assert abs(made["all"][one.item] - entry["score"]) <= 1e-6
            assert board.arrays["learnt"][entry["item"]]
            assert entry["item"] not in own.items


@pytest.mark.parametrize("case", ["residual", "adadpals", "adadpals-presence"])
def test_reasons_are_those_of_the_device(page: Page, signed: Signed, case: str) -> None:
    page.open(signed.page)
    board = board_of(case)
    cohorts = people(board)[:20]
    given = [list(zip(own.items.tolist(), own.ratings.tolist(), strict=True)) for own in cohorts]

    found = page.js(LISTS, base64.b64encode(board.to_bytes()).decode(), rating_range_of(board), given, 1)

    for own, made in zip(cohorts, found, strict=True):
        entry = made["entries"][0]
        added = {one.item: one.added for one in explain(own, board, entry["item"]).influences}
        np.testing.assert_allclose(made["added"], [added[item] for item in own.items], rtol=1e-5, atol=1e-6)
        raising = sum(part for part in added.values() if part > 0)
        if raising > 0:
            strongest = max(added, key=lambda item: added[item])
            assert entry["reason"]["item"] == strongest
            assert math.isclose(entry["reason"]["share"], added[strongest] / raising, rel_tol=1e-4)


def test_neighbours_are_those_of_the_command(page: Page, signed: Signed) -> None:
    page.open(signed.page)

    found = page.js(
        "const { values, shape } = fedboard.held[0].board.arrays.item_factors;"
        "return fedboard.neighbours(values, shape[1], 5, 6)"
    )

    wanted = nearest_items(signed.newest, 5, k=6)
    assert [one["item"] for one in found] == [one.item for one in wanted]
    np.testing.assert_allclose([one["cosine"] for one in found], [one.cosine for one in wanted], atol=1e-9)


def test_the_page_knows_the_models_that_its_registry_lists(page: Page, signed: Signed) -> None:
    page.open(signed.page)

    assert sorted(page.js("return Object.keys(fedboard.MODELS)")) == sorted(known_tasks())


def test_a_board_of_an_unknown_model_is_refused_in_words(page: Page, signed: Signed) -> None:
    other = replace(certified(signed.newest), task="somebodys-own", certificate=None, _digest=[])
    changed = edited(signed.page, lambda data: carrying(data["boards"][0], other.to_bytes()), "unknown")

    page.open(changed)

    assert page.js("return document.querySelector('#app').hidden")
    assert "does not know the own model of boards that the task somebodys-own made" in page.text(
        "#trouble-words"
    )


def test_the_seal_of_a_signed_board_turns_green_and_a_changed_byte_turns_it_red(
    page: Page, signed: Signed
) -> None:
    page.open(signed.page)
    assert page.seal() == ("passed", PASSED)
    assert page.text(".badge.verdict .verdict-words") == "Sealed and private"

    page.awaited("await fedboard.seal.changeByte()")
    state, steps = page.seal()
    assert (state, steps["signature"], steps["bytes"], steps["chain"]) == (
        "failed",
        "passed",
        "failed",
        "failed",
    )
    assert "one bit of it" in page.text("#changed")
    assert page.js("return document.querySelector('#odds').hidden")

    page.awaited("await fedboard.seal.changeByte()")
    assert page.seal() == ("passed", PASSED)


def flipped(data: dict[str, Any], signed: Signed) -> None:
    content = bytearray(signed.newest.to_bytes())
    content[len(content) // 2] ^= 1
    carrying(data["boards"][0], bytes(content))


def other_key(data: dict[str, Any], _: Signed) -> None:
    data["key"] = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def other_signature(data: dict[str, Any], _: Signed) -> None:
    held = data["boards"][0]["signed"]
    held["signature"] = held["signature"][:-2] + format(int(held["signature"][-2:], 16) ^ 1, "02x")


def other_manifest(data: dict[str, Any], _: Signed) -> None:
    held = data["boards"][0]["signed"]
    held["content"] = held["content"].replace('"version":4', '"version":5')


def older_board(data: dict[str, Any], signed: Signed) -> None:
    carrying(data["boards"][0], chain(3)[1].to_bytes())


def broken_chain(data: dict[str, Any], signed: Signed) -> None:
    """The holder of the key signed two stories."""
    before = signed.key.public.open(signed.mirror.signed(3))
    other = replace_manifest(before, board_digest="0" * 64)
    content = other.to_bytes()
    signature = signed.key._key.sign(b"fedboard-manifest-2\0" + content)
    data["boards"][0]["earlier"][0] = {"content": content.decode(), "signature": signature.hex()}


def less_claimed(data: dict[str, Any], signed: Signed) -> None:
    """Whoever signs nothing and writes a smaller epsilon, digests and all."""
    data["boards"][0] |= {"signed": None, "earlier": []}
    carrying(data["boards"][0], claiming(signed.newest, 0.1).to_bytes())


def replace_manifest(manifest: Any, **changes: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(manifest, **changes)


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (flipped, "bytes"),
        (other_key, "signature"),
        (other_signature, "signature"),
        (other_manifest, "signature"),
        (older_board, "bytes"),
        (broken_chain, "chain"),
        (less_claimed, "promise"),
    ],
)
def test_what_somebody_changed_in_the_file_turns_its_step_red(
    page: Page, signed: Signed, change: Any, broken: str
) -> None:
    changed = edited(signed.page, lambda data: change(data, signed), change.__name__)

    page.open(changed)

    state, steps = page.seal()
    assert state == "failed"
    assert steps[broken] == "failed"
    assert page.text("p.verdict .verdict-words") == "The seal is broken"
    assert page.js("return document.querySelector('#odds').hidden"), "a broken seal promises nothing"


def test_a_simulation_is_red_and_says_so(page: Page, folder: Path) -> None:
    seeded = Signed(folder / "seeded", seeded=True)

    page.open(seeded.page)

    assert page.seal() == ("failed", PASSED | {"noise": "failed"})
    assert page.text("p.verdict .verdict-words") == "Not private: a simulation"
    assert "can be reproduced from its seed" in page.text("#seal-steps")
    assert "would be right at most" in page.text("#odds-words")


def test_what_nobody_signed_is_not_green(page: Page, folder: Path) -> None:
    page.open(unsigned_page(folder / "unsigned", chain(1)[0]))

    state, steps = page.seal()
    assert state == "open"
    assert steps == {
        "signature": "open",
        "bytes": "open",
        "chain": "open",
        "promise": "passed",
        "noise": "passed",
    }


def test_accounting_is_that_of_python(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    grid = [(float(mu), delta) for mu in np.geomspace(0.01, 20, 40) for delta in (1e-3, 1e-5, 1e-7, 1e-9)]

    found = page.js("return arguments[0].map(([mu, delta]) => fedboard.epsilonOf(delta, mu))", grid)
    np.testing.assert_allclose(found, [epsilon_of(delta, mu=mu) for mu, delta in grid], rtol=1e-9)
    points = [(epsilon_of(delta, mu=mu) * part, mu) for mu, delta in grid for part in (0.5, 1.0)]
    found = page.js("return arguments[0].map(([epsilon, mu]) => fedboard.deltaOf(epsilon, mu))", points)
    np.testing.assert_allclose(found, [delta_of(epsilon, mu=mu) for epsilon, mu in points], rtol=1e-9)
    budgets = [(epsilon, delta) for epsilon in (0.1, 1.0, 8.0, 50.0) for delta in (1e-4, 1e-8)]
    found = page.js("return arguments[0].map(([epsilon, delta]) => fedboard.muFor(epsilon, delta))", budgets)
    np.testing.assert_allclose(found, [mu_for(epsilon, delta) for epsilon, delta in budgets], rtol=1e-9)


def test_erfc_keeps_its_digits_from_one_tail_to_the_other(page: Page, signed: Signed) -> None:
    from scipy.special import erfc

    page.open(signed.page)
    points = np.concatenate(
        [np.linspace(-6, 6, 241), np.linspace(6, 26, 81), [0.5, 0.4999999, 6.2831, 6.2832]]
    )

    found = page.js("return arguments[0].map(fedboard.erfc)", points.tolist())

    np.testing.assert_allclose(found, erfc(points), rtol=2e-13)


RFC_8032 = (
    ("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"),
    ("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"),
    ("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"),
    ("ec172b93ad5e563f4932c70e1245034c35467ef2efd4d64ebf819683467e2bf", None, None),
)  # fmt: skip
"""Tests 1 to 3 of section 7.1: public key, message, signature; and what is no key."""


def test_the_fallback_checks_signatures_as_rfc_8032_does(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    check = (
        "const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));"
        "return arguments[0].map(([key, message, signature]) =>"
        " fedboard.plainIsSigned(bytes(key), bytes(signature), bytes(message)))"
    )
    sound = [list(vector) for vector in RFC_8032[:3]]
    order = 2**252 + 27742317777372353535851937790883648493
    wrong = []
    for key, message, signature in sound:
        half, scalar = signature[:64], int.from_bytes(bytes.fromhex(signature[64:]), "little")
        again = (
            (scalar + order).to_bytes(32, "little").hex()
        )  # the same modulo the order: a second form of it
        wrong += [
            [key, message + "00", signature],
            [key, message, half + again],
            [key, message, ("00" if half[:2] != "00" else "01") + signature[2:]],
            [sound[0][0] if key != sound[0][0] else sound[1][0], message, signature],
        ]
    wrong.append(["ff" * 31 + "7f", "", sound[0][2]])  # y is not below the field's order

    assert page.js(check, sound) == [True] * 3
    assert page.js(check, wrong) == [False] * len(wrong)
    # The board's own signature, and hashes of every padding.
    data = page.awaited(
        "const { evidence } = fedboard.held[0];"
        "const message = new TextEncoder().encode(`fedboard-manifest-2\\0${evidence.signed.content}`);"
        "const signature = Uint8Array.from(evidence.signed.signature.match(/../g), (pair) => parseInt(pair, 16));"
        "return fedboard.plainIsSigned(evidence.key, signature, message)"
    )
    assert data is True
    sizes = [0, 1, 55, 56, 63, 64, 65, 111, 112, 119, 127, 128, 129, 1000]
    hashes = page.js(
        "const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');"
        "return arguments[0].map((size) => { const bytes = new Uint8Array(size).fill(size % 251);"
        " return [hex(fedboard.plainSha256(bytes)), hex(fedboard.plainSha512(bytes))]; })",
        sizes,
    )
    contents = [bytes([size % 251]) * size for size in sizes]
    assert hashes == [[hashlib.sha256(c).hexdigest(), hashlib.sha512(c).hexdigest()] for c in contents]


def test_titles_of_others_are_text_and_nothing_else(page: Page, folder: Path) -> None:
    hostile = "</script><script>window.taken = 1</script><img src=x onerror='window.taken = 2'>"
    board = titled(chain(1)[0], lambda item: f"{hostile} {{{{script}}}} <b>{item}</b>")
    page.open(unsigned_page(folder / "hostile", board))
    page.js(
        "fedboard.taste.rate(3, 5); fedboard.taste.hide(4);"
        "document.querySelector('.entry .actions button:nth-child(3)').click()"
    )

    assert page.js("return window.taken ?? null") is None
    assert page.js("return document.querySelectorAll('img, b').length") == 0
    assert page.js("return document.scripts.length") == 2
    assert hostile in page.text("#list .entry-title")
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
    page.awaited("await fedboard.choose(0)")

    assert page.requests() == []
    assert page.text(".requests") == "0"
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
