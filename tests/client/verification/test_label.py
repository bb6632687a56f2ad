"""What a label says of which certificate; in a real browser it is legible, and nothing runs in it."""

import math
import os
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from fedboard.client.verification.evidence import Evidence
from fedboard.client.verification.label import as_line, cut, facts_of, label_page, odds_of, verified_label
from fedboard.common.certificate import Certificate
from fedboard.common.certificate.checks import RoundsMade
from fedboard.common.privacy.accounting.exact import delta_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.client.page.browser import Page
from tests.common.certificates import ACCOUNT, certificate_of, planned_events, questions
from tests.common.privacy.commitments import planned


def text_of(certificate: Certificate) -> str:
    return unescape(re.sub("<[^>]+>", "", label_page(certificate).partition("<body>")[2]))


def test_a_private_run_says_who_against_whom_how_often_what_not_and_how_long() -> None:
    certificate = certificate_of()

    told = text_of(certificate)

    mu = certificate.composition.mu
    at_most = math.ceil(100 * (1 + delta_of(0.0, mu=mu)) / 2)
    assert f"Someone who bets that you took part is right at most {at_most} times in 100." in told
    assert [name for name, _ in facts_of(certificate)][:2] == ["mu", "epsilon, delta"]
    assert f"The publisher says: What was used: {certificate.dataset}" in told, "nobody's word is a fact"


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        ("trusted", "a server adds random noise. Whoever runs it must be trusted"),
        ("secure-sum", "a server adds random noise. Whoever runs it must be trusted"),
        ("local", "Each device adds its own random noise before it sends anything"),
        ("distributed-dp", "The devices add the random noise together. At least"),
    ],
)
def test_who_must_add_the_noise_is_read_off_the_releases(protocol: str, sentence: str) -> None:
    certificate = certificate_of(protocol=protocol)

    assert sentence in text_of(certificate)
    assert all(cut(told, 400) in text_of(certificate) for told in certificate.trust)


def test_exchanged_ratings_do_not_hide_who_took_part() -> None:
    events = [
        {**event, "noise": SecureNoise.label, "private": True}
        for event in planned_events("residual", Adjacency.REPLACE)
    ]
    replaced = certificate_of(commitment=planned(events, epsilon=5.0, adjacency="replace"), events=events)

    told = text_of(replaced)

    assert "That they took part is not hidden." in told
    assert "Someone who bets which of two lists of ratings was yours is right at most" in told
    assert "took part is right" not in told


def test_without_a_plan_the_budget_is_told_and_no_mu() -> None:
    assert next(facts_of(questions()))[0] == "epsilon, delta"
    assert "every answer that this run may ever give" in text_of(questions())
    share = (1 + 1e-6 * math.exp(-2.0)) / (1 + math.exp(-2.0))
    assert odds_of(questions()).hundred == math.ceil(100 * share)


def test_other_runs_and_rounds_to_come_are_counted_where_somebody_counts() -> None:
    counted = replace(certificate_of(), population=ACCOUNT, rounds=RoundsMade(planned=7, made=3, lost=1))

    told = text_of(counted)

    assert "all of them together may cost epsilon 8.0001 at delta 1e-05." in told
    assert "all 7 planned rounds of learning together. 3 are still to come" in told


def test_text_of_others_is_one_line_that_turns_nothing_around() -> None:
    assert as_line("  two\n lines\u202e evil\u0007\ufeff ") == "two lines evil"
    assert as_line("हिन्दी می\u200cخواهم e\u0301") == "हिन्दी می\u200cخواهم e\u0301"
    assert as_line("Z" + "\u0351" * 50) == "Z" + "\u0351" * 4
    assert cut("x" * 500, 10) == "xxxxxxxxx…"


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
        text = verified_label(Evidence(certificate=certificate))
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.skipif(not AXE.is_file(), reason="FEDBOARD_AXE does not name axe.min.js (npm pack axe-core)")
@pytest.mark.parametrize("width", [375, 1280])
def test_no_barrier_is_found(page: Page, labels: Path, width: int) -> None:
    page.look(width, "light")
    page.driver.get((labels / "private.html").as_uri())

    page.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    found, passed = page.awaited(
        "const { violations, passes } = await axe.run(document);"
        "return [violations, passes.map(({ id }) => id)]"
    )

    assert {"color-contrast", "svg-img-alt", "document-title"} <= set(passed), "it looked"
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found] == []
