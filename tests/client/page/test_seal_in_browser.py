"""The seal in a real browser: green for what holds, red for what somebody changed, and numbers like Python's."""

import base64
import gzip
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from fedboard.common.privacy.accounting.exact import delta_of, epsilon_of, mu_for
from fedboard.common.privacy.accounting.guarantee import in_hundred, right_bets_of_epsilon, right_bets_of_mu
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.shown import shown_number
from tests.client.page import certificates
from tests.client.page.browser import Page
from tests.client.page.pages import Signed, edited, unsigned_page
from tests.common.boards.boards import chain
from tests.common.certificates import questions

pytestmark = pytest.mark.slow

PASSED = dict.fromkeys(("signature", "bytes", "chain", "promise", "noise"), "passed")


def test_the_seal_of_a_signed_board_turns_green(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    assert page.seal() == ("passed", PASSED)
    assert page.text(".badge.verdict .verdict-words") == "Sealed and private"
    assert "and it continues the 2 signed before it" in page.text("#seal-steps")


def other_key(data: dict[str, Any], _: Signed) -> None:
    data["pins"]["keys"] = ["d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"]


def test_a_page_counts_the_keys_that_a_root_asks_for(page: Page, signed: Signed) -> None:
    """Two of two: one signature is not enough, and neither is the same one twice."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    second = Ed25519PrivateKey.generate()
    message = b"fedboard-manifest-5\0" + signed.link(4).signed.content.encode()
    (own,) = signed.link(4).signed.signatures

    def two_of_two(more: list[str]) -> Any:
        def change(data: dict[str, Any]) -> None:
            data["pins"]["keys"].append(second.public_key().public_bytes_raw().hex())
            data["pins"]["threshold"] = 2
            data["board"]["signed"]["signatures"] = [own, *more]
            data["board"]["earlier"] = []

        return change

    for more, state in (([], "failed"), ([own], "failed"), ([second.sign(message).hex()], "passed")):
        page.open(edited(signed.page, two_of_two(more), f"two-{len(more)}-{state}"))
        assert page.seal()[1]["signature"] == state


def test_a_simulation_is_red_and_says_so(page: Page, folder: Path) -> None:
    seeded = Signed(folder / "seeded", seeded=True)

    page.open(seeded.page)

    assert page.seal() == ("failed", PASSED | {"noise": "failed"})
    assert page.text("p.verdict .verdict-words") == "Not private: a simulation"
    assert "can be reproduced from its seed" in page.text("#seal-steps")
    assert "would be right at most" in page.text("#odds-words")

    page.open(edited(seeded.page, lambda data: other_key(data, seeded), "seeded-other-key"))

    assert page.text("p.verdict .verdict-words") == "The seal is broken", "a simulation is no excuse"
    assert page.js("return document.querySelector('#odds').hidden")


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

    found = page.js("return arguments[0].map(([mu, delta]) => inside.epsilonOf(delta, mu))", grid)
    np.testing.assert_allclose(found, [epsilon_of(delta, mu=mu) for mu, delta in grid], rtol=1e-9)
    points = [(epsilon_of(delta, mu=mu) * part, mu) for mu, delta in grid for part in (0.5, 1.0)]
    found = page.js("return arguments[0].map(([epsilon, mu]) => inside.deltaOf(epsilon, mu))", points)
    np.testing.assert_allclose(found, [delta_of(epsilon, mu=mu) for epsilon, mu in points], rtol=1e-9)
    budgets = [(epsilon, delta) for epsilon in (0.1, 1.0, 8.0, 50.0) for delta in (1e-4, 1e-8)]
    found = page.js("return arguments[0].map(([epsilon, delta]) => inside.muFor(epsilon, delta))", budgets)
    np.testing.assert_allclose(found, [mu_for(epsilon, delta) for epsilon, delta in budgets], rtol=1e-9)


def test_odds_and_numbers_are_those_of_a_label(page: Page, signed: Signed) -> None:
    """Page and label say the same of one certificate: right bets in a hundred, and five digits rounded up."""
    page.open(signed.page)
    grid = [float(mu) for mu in np.geomspace(0.01, 20, 60)]
    claims = [(epsilon, delta) for epsilon in (0.0, 0.1, 1.0, 5.0, 30.0) for delta in (1e-3, 1e-5, 1e-9)]
    numbers = [5.0, 4.9999999, 5.0000001, 9.99991, 9.99996, 1e-5, 0.95133543, 1234.5678, 0.0, 2.5e-7, *grid]

    exact = "inside.betsInHundred({ numbers: { exact: true, mu } })"
    claimed = "inside.betsInHundred({ claim: { epsilon, delta }, numbers: null })"
    assert page.js(f"return arguments[0].map((mu) => {exact})", grid) == [
        in_hundred(right_bets_of_mu(mu)) for mu in grid
    ]
    assert page.js(f"return arguments[0].map(([epsilon, delta]) => {claimed})", claims) == [
        in_hundred(right_bets_of_epsilon(epsilon, delta)) for epsilon, delta in claims
    ]
    shown = page.js("return arguments[0].map((number) => Number(inside.shortNumber(number)))", numbers)
    assert shown == [float(shown_number(number)) for number in numbers]


def test_erfc_keeps_its_digits_from_one_tail_to_the_other(page: Page, signed: Signed) -> None:
    from scipy.special import erfc

    page.open(signed.page)
    points = np.concatenate(
        [np.linspace(-6, 6, 241), np.linspace(6, 26, 81), [0.5, 0.4999999, 6.2831, 6.2832]]
    )

    found = page.js("return arguments[0].map(inside.erfc)", points.tolist())

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
        " inside.plainIsSigned(bytes(key), bytes(signature), bytes(message)))"
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
        "const { evidence } = fedboard;"
        "const message = new TextEncoder().encode(`fedboard-manifest-5\\0${evidence.signed.content}`);"
        "const [own] = evidence.signed.signatures;"
        "const signature = Uint8Array.from(own.match(/../g), (pair) => parseInt(pair, 16));"
        "return inside.plainIsSigned(evidence.pins.keys[0], signature, message)"
    )
    assert data is True
    sizes = [0, 1, 55, 56, 63, 64, 65, 111, 112, 119, 127, 128, 129, 1000]
    hashes = page.js(
        "const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');"
        "return arguments[0].map((size) => { const bytes = new Uint8Array(size).fill(size % 251);"
        " return [hex(inside.plainSha256(bytes)), hex(inside.plainSha512(bytes))]; })",
        sizes,
    )
    contents = [bytes([size % 251]) * size for size in sizes]
    assert hashes == [[hashlib.sha256(c).hexdigest(), hashlib.sha512(c).hexdigest()] for c in contents]


def test_what_takes_loss_distributions_is_said_to_be_beyond_the_page(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    plain = json.loads(questions().to_json())

    found = page.awaited(
        "return await inside.checkedCertificate(JSON.parse(given[0]), given[0])",
        certificates.on_a_board(plain),
    )

    assert "loss distributions, which this page does not compute" in found["beyond"]
    assert found["numbers"] is None


def test_no_odds_are_told_of_what_nobody_signed_and_the_page_cannot_recompute(
    page: Page, folder: Path
) -> None:
    """One release of another mechanism must not be a way to be believed."""
    board = chain(1)[0]
    certificate = json.loads(questions().to_json()) | {"board_digest": board.digest}
    certificate["claim"]["epsilon"] = 0.001
    certificate["digest"] = digest({key: value for key, value in certificate.items() if key != "digest"})

    page.open(unsigned_page(folder / "beyond", board.with_certificate(certificate)))

    state, steps = page.seal()
    assert (state, steps["promise"]) == ("open", "open")
    assert page.js("return document.querySelector('#odds').hidden")
    assert "it tells no odds" in page.text("#odds-none")


def test_odds_are_those_of_the_exact_curve(page: Page, signed: Signed) -> None:
    page.open(signed.page)
    mu = signed.newest.certificate["composition"]["mu"]

    at_most = math.ceil(100 * ndtr(mu / 2))

    assert f"right at most {at_most} times in 100" in page.text("#odds-words")
    assert page.js("return document.querySelectorAll('#odds-icons .more').length") == at_most - 50
    assert page.js("return document.querySelectorAll('#odds-icons .wrong').length") == 100 - at_most


def test_how_the_page_holds_the_board_is_its_own_affair(page: Page, signed: Signed) -> None:
    """Signed are the board's bytes; another zlib packs them into others."""

    def repacked(data: dict[str, Any]) -> None:
        content = gzip.compress(signed.newest.to_bytes(), 1)
        data["board"]["file"] = base64.b64encode(content).decode()

    page.open(edited(signed.page, repacked, "repacked"))

    assert page.seal() == ("passed", PASSED)
