"""Rules of the page, module by module: private noise, how long a manifest is current, releases made twice."""

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fedboard.client.ratings.own_file import read_ratings
from fedboard.common.boards.validity import CLOCK_SECONDS, is_current, utc_seconds
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from tests.client.page.certificates import certificate, on_a_board, release
from tests.common.privacy.commitments import planned

SCRIPT = Path(__file__).parents[3] / "client" / "page" / "script"
NODE = shutil.which("node")
TIMES = {"signed": "2026-01-31T12:00:00Z", "expires": "2026-02-28T12:00:00Z"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="JavaScript without a browser needs Node.js"),
]


def told(module: str, expression: str, given: object) -> Any:
    """What an expression makes of ``given``; ``own`` is the module."""
    text = f"const own = await import('file://{SCRIPT / module}'); const given = {json.dumps(given)};"
    command = [str(NODE), "--input-type=module", "-e", f"{text} console.log(JSON.stringify({expression}))"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_one_seeded_release_among_secure_ones_makes_a_simulation() -> None:
    secure, seeded = SecureNoise().describe(), SeededNoise(1).describe()
    lists = [[secure], [secure, secure], [secure, seeded], [seeded, secure], [seeded], []]

    found = told("seal/releases.js", "given.map(own.isPrivateNoise)", lists)

    assert found == [True, True, False, False, False, False]


def test_a_manifest_is_current_as_long_as_for_every_other_reader() -> None:
    ends = [utc_seconds(text) for text in TIMES.values()]
    moments = [
        end + sign * (CLOCK_SECONDS + apart) for end in ends for sign in (-1, 1) for apart in (-1, 0, 1)
    ]

    found = told(
        "seal/manifests.js", "given[1].map((at) => own.isCurrent(given[0], 1000 * at))", [TIMES, moments]
    )

    assert found == [is_current(**TIMES, clock=lambda at=at: at) for at in moments]
    assert len(set(found)) == 2


def test_a_certificate_may_escape_what_it_says() -> None:
    """The same content in other characters; a member that stands there twice is none of it."""
    releases = [release(1, Adjacency.ADD_REMOVE)]
    text = on_a_board(certificate(releases, planned(releases)))
    escaped = text.replace("é", "\\u00e9")
    assert escaped != text
    twice = text.replace('"unit":', '"\\u0075nit":"user","unit":')

    found = [
        told("seal/certificate_form.js", "own.isCertificate(JSON.parse(given), given)", each)
        for each in (text, escaped, twice)
    ]

    assert found == [True, True, False]


BOARD = (
    ("=1+1", "-1", "'=1+1", "''-2", "'+3", "7", "\uff1d1"),
    ("=cmd", "'=x", "@a, b", "+3", "c", "d", "e"),
)
"""Ids and titles."""


def test_no_cell_of_its_own_file_is_a_formula_and_every_item_comes_back(tmp_path: Path) -> None:
    given = [[item, item - 1] for item in range(len(BOARD[0]))]

    written, back = told(
        "taste/ratings_csv.js",
        "((text) => [text, [...own.readRatings(text, ...given[0], [-1, 9]).ratings]])"
        "(own.writtenRatings(new Map(given[1]), ...given[0]))",
        [BOARD, given],
    )

    assert back == given
    rows = list(csv.reader(io.StringIO(written)))[1:]
    assert [one for item, _, _, title in rows for one in (item, title) if one[0] in "=+-@\t\r\uff1d"] == []
    path = tmp_path / "own.csv"
    path.write_text(written, encoding="utf-8")
    assert [one.item for one in read_ratings(path)] == list(BOARD[0])


def test_a_title_and_an_id_are_found_as_they_are_written_by_hand() -> None:
    text = "item,rating\n'+3,'+1\n''-2,2\n=cmd,3\n'@A,4\n'-1,5\n"

    found = told(
        "taste/ratings_csv.js",
        "(({ ratings, left }) => [[...ratings], left])(own.readRatings(given[0], ...given[1], [1, 5]))",
        [text, BOARD],
    )

    assert found == [[[4, 1], [3, 2], [0, 3], [1, 5]], ["Line 5: not on this board."]]


def test_a_planned_release_is_made_once() -> None:
    releases = [release(number, Adjacency.ADD_REMOVE) for number in (1, 2)]
    once = certificate(releases, planned(releases))
    twice = {**once, "releases": [*once["releases"], once["releases"][0]]}
    twice["digest"] = digest({key: value for key, value in twice.items() if key != "digest"})
    texts = [on_a_board(one) for one in (once, twice)]

    each = "await Promise.all(given.map((text) => own.checkedCertificate(JSON.parse(text), text)))"
    found = told("seal/certificate.js", f"({each}).map(({{ failed }}) => failed)", texts)

    assert found == [[], ["a planned release was made twice"]]
    assert [Certificate.from_dict(one).holds for one in (once, twice)] == [True, False]
