"""The reader that was written from the specification alone, held to the test vectors, which the package writes."""

import base64
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ROOT = Path(__file__).parents[2]
READER, VECTORS = ROOT / "examples" / "reader" / "read.py", ROOT / "docs" / "vectors"
MODELS, REFUSALS = (json.loads((VECTORS / f"{name}.json").read_text()) for name in ("models", "refusals"))
KEY = bytes.fromhex(MODELS["key"])
BOARDS = {vector["name"]: vector for vector in MODELS["boards"]}
RECOMMENDED = ("residual", "adadpals", "adadpals-presence")


@pytest.fixture(scope="module")
def reader() -> Any:
    spec = importlib.util.spec_from_file_location("reader_of_boards", READER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def board_of(reader: Any, vector: dict[str, Any], **known: Any) -> dict[str, Any]:
    content = base64.b64decode(vector["packed"])
    return reader.taken(
        vector["signed"],
        lambda _: content,
        KEY,
        earlier=lambda digest: found_in(vector["earlier"], digest),
        **{"simulation": True, **known},
    )


def found_in(manifests: list[dict[str, Any]], digest: str) -> dict[str, Any] | None:
    """What a mirror has under this SHA-256."""
    named = {hashlib.sha256(one["content"].encode()).hexdigest(): one for one in manifests}
    return named.get(digest)


@pytest.mark.parametrize("name", BOARDS)
def test_a_board_is_read_as_it_was_written(reader: Any, name: str) -> None:
    vector, wanted = BOARDS[name], BOARDS[name]["expected"]

    board = board_of(reader, vector, seen=vector["earlier"][-1])

    assert {key: board[key] for key in ("task", "version", "digest")} == {
        key: wanted[key] for key in ("task", "version", "digest")
    }
    assert {
        array: {"dtype": value.dtype.str, "shape": list(value.shape)}
        for array, value in board["arrays"].items()
    } == {array: {"dtype": told["dtype"], "shape": told["shape"]} for array, told in wanted["arrays"].items()}
    sums = {array: float(value.sum()) for array, value in board["arrays"].items()}
    assert sums == pytest.approx({array: told["sum"] for array, told in wanted["arrays"].items()}, rel=1e-6)
    assert reader.protection(board) == ("simulation" if name == "simulation" else "private")


@pytest.mark.parametrize("who", ["several", "one"])
@pytest.mark.parametrize("name", RECOMMENDED)
def test_a_person_gets_her_twenty_best(reader: Any, name: str, who: str) -> None:
    wanted = BOARDS[name]["people"][who]

    top = reader.best(board_of(reader, BOARDS[name]), wanted["ratings"])

    assert [item for item, _ in top] == [item for item, _ in wanted["top"]]
    assert [score for _, score in top] == pytest.approx([score for _, score in wanted["top"]], abs=1e-4)
    assert len(top) == 20


@pytest.mark.parametrize("case", REFUSALS["cases"], ids=lambda case: case["name"])
def test_what_must_not_be_taken_is_refused_with_its_code(reader: Any, case: dict[str, Any]) -> None:
    """All but a certificate that does not hold, whose numbers it does not recompute."""
    content = base64.b64decode(REFUSALS["files"][case["file"]])
    pinned = REFUSALS["witnesses"]
    witnesses, refused = reader.witnesses_of(pinned["keys"], pinned["cosignatures"]), None

    try:
        reader.taken(
            case["signed"],
            lambda _: content,
            KEY,
            witnesses=witnesses if case["witnessed"] else None,
            seen=case["seen"],
            earlier=lambda digest: found_in(case["earlier"], digest),
            simulation=case["simulation"],
            most=case["max_bytes"],
            now=case["now"] and reader.seconds(case["now"]),
        )
    except reader.RefusedError as error:
        refused = str(error)

    assert refused == (None if case["refused"] == "bad-certificate" else case["refused"])


def test_every_code_that_a_file_or_manifest_can_be_refused_with_has_a_case() -> None:
    specification = (ROOT / "docs" / "reader-specification.md").read_text(encoding="utf-8")
    told = {case["refused"] for case in REFUSALS["cases"]} - {None}

    assert sorted(code for code in told if f"`{code}`" not in specification) == []
    assert told == {
        *("malformed", "bad-signature", "wrong-run", "rollback", "broken-chain", "simulation"),
        *("out-of-date", "too-large", "unreachable", "wrong-digest", "not-as-stated", "bad-certificate"),
        *("not-witnessed", "split-view", "ledger-changed"),
    }


@pytest.mark.parametrize(("n", "k"), [(3, 1), (2, 1), (3, 4), (4, 2)])
def test_fewer_than_more_than_half_of_the_witnesses_are_no_policy(reader: Any, n: int, k: int) -> None:
    with pytest.raises(ValueError, match="more than half"):
        reader.witnesses_of([f"{place:064x}" for place in range(n)], k)


@pytest.mark.slow
def test_the_vectors_are_what_the_package_says() -> None:
    ended = subprocess.run(
        [sys.executable, VECTORS / "write.py", "--check"], check=False, capture_output=True, text=True
    )

    assert ended.returncode == 0, ended.stderr


def test_the_command_reads_a_mirror_without_fedboard(tmp_path: Path) -> None:
    vector = BOARDS["residual"]
    (tmp_path / "files").mkdir()
    (tmp_path / "latest.json").write_text(json.dumps(vector["signed"]))
    file = json.loads(vector["signed"]["content"])["file"]
    (tmp_path / "files" / file["sha256"]).write_bytes(base64.b64decode(vector["packed"]))
    key = Ed25519PublicKey.from_public_bytes(KEY)
    (tmp_path / "key.pub").write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    (tmp_path / "mine.csv").write_text("item,rating\nf01,5\nf08,1\n")
    watched = (
        "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, sys.argv[0].rpartition('/')[0])\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "finally: print('fedboard' in sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", watched, str(READER), *(str(tmp_path),)]

    ended = subprocess.run(
        [*command, str(tmp_path / "key.pub"), str(tmp_path / "mine.csv")],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stderr) == (0, "False\n")
    assert "noise: private" in ended.stdout
    assert len(re.findall(r"^ *\d\.\d{3}  Film", ended.stdout, re.MULTILINE)) == 20

    def read(*options: str) -> str:
        own = [
            sys.executable,
            str(READER),
            *map(str, (tmp_path, tmp_path / "key.pub", tmp_path / "mine.csv")),
        ]
        return subprocess.run([*own, *options], check=False, capture_output=True, text=True).stderr

    seen = tmp_path / "seen.json"
    assert read("--seen", str(seen)) == ""
    assert json.loads(seen.read_text()) == vector["signed"]
    (tmp_path / "latest.json").write_text(json.dumps(vector["earlier"][0]))
    assert read("--seen", str(seen)) == "not taken: rollback\n"
    assert read("--witness", REFUSALS["witnesses"]["keys"][0]) == "not taken: not-witnessed\n"
