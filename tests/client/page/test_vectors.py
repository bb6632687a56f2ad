"""The page's own modules, another implementation, held to the test vectors of the reader specification, and to
packed boards that are no boards.
"""

import base64
import gzip
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "docs" / "vectors"
NODE = shutil.which("node")
BY_WHAT_SHE_KNOWS = ("unreachable", "too-large", "wrong-run", "rollback", "broken-chain", "split-view")
"""Refusals for what the reader saw before or wants; the page has no memory."""

pytestmark = pytest.mark.skipif(NODE is None, reason="JavaScript without a browser needs Node.js")


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    command = [str(NODE), str(Path(__file__).with_name("vectors.mjs")), str(ROOT)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def kept(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
def test_it_reads_every_board_and_recommends_what_the_vectors_say(told: dict[str, Any]) -> None:
    for vector in kept("models")["boards"]:
        found, wanted = told["boards"][vector["name"]], vector["expected"]
        assert (found["digest"], found["seal"]) == (wanted["digest"], wanted["seal"])
        for who, person in vector["people"].items():
            assert [item for item, _ in found["lists"][who]] == [item for item, _ in person["top"]]
            scores = [score for _, score in person["top"]]
            assert [score for _, score in found["lists"][who]] == pytest.approx(scores, abs=1e-4)


@pytest.mark.slow
def test_it_is_green_for_nothing_that_must_not_be_taken(told: dict[str, Any]) -> None:
    cases = kept("refusals")["cases"]

    green = {name for name, state in told["cases"].items() if state == "passed"}
    refused = {case["name"] for case in cases if case["refused"] not in (None, *BY_WHAT_SHE_KNOWS)}

    assert len(refused) > 50
    assert {case["refused"] for case in cases if case["name"] in refused} >= {
        "not-witnessed",
        "ledger-changed",
    }
    assert sorted(green & refused) == []
    taken = {case["name"] for case in cases if case["refused"] is None} - {"a simulation, wanted"}
    assert sorted(taken - green) == []
    assert {"sound", "expired for 299 seconds", "signed in 299 seconds"} <= taken


@pytest.mark.slow
def test_its_reasons_are_those_of_the_vectors(told: dict[str, Any]) -> None:
    cases = kept("reasons")["cases"]

    assert {case["effect"] for case in cases} == {"raised", "lowered", "hardly-moved"}
    for case, found in zip(cases, told["reasons"], strict=True):
        assert found == {name: case[name] for name in ("effect", "net", "rated")} | {
            "net": pytest.approx(case["net"], abs=1e-12)
        }


SCRIPT = """
const { unpacked } = await import(process.argv[1]);
const { files, size } = JSON.parse(process.argv[2]);
const told = [];
for (const file of files) {
  const bytes = new Uint8Array(Buffer.from(file, "base64"));
  told.push(await unpacked(bytes, size).then(() => "read", (error) => error.message));
}
console.log(JSON.stringify(told));
"""


def test_a_packed_board_is_just_as_long_as_was_stated_or_left() -> None:
    module, size = (ROOT / "client" / "page" / "script" / "board" / "bytes.js").as_uri(), 5_000
    made = [bytes(size), bytes(20_000_000), bytes(size - 1)]
    packed = [*map(gzip.compress, made), gzip.compress(bytes(size)) + b"more", bytes(size)]
    given = json.dumps({"files": [base64.b64encode(one).decode() for one in packed], "size": size})

    ended = subprocess.run(
        [str(NODE), "--input-type=module", "-e", SCRIPT, module, given],
        capture_output=True,
        text=True,
        timeout=60,
    )

    read, more, less, *others = json.loads(ended.stdout)
    assert (read, more) == ("read", "more was packed than was stated")
    assert less == "less was packed than was stated"
    assert "read" not in others
