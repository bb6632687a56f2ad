"""The reader that was written from the specification alone, held to the test vectors, which the package writes."""

import base64
import hashlib
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.certificate import Certificate
from fedboard.common.keys.canonical_json import canonical_json
from fedboard.common.keys.roots import Role, Root, RootError, tuf_key_id
from fedboard.server.operating.roots.drafting import Terms, drafted, signed_by
from tests.cli.fleet.key_drill import drilled
from tests.client.page import certificates
from tests.common.keys.test_roots import NO_ROOTS, A, B, C, document, raw

ROOT = Path(__file__).parents[2]
READER, VECTORS = ROOT / "examples" / "reader", ROOT / "docs" / "vectors"
MODELS, REFUSALS = (json.loads((VECTORS / f"{name}.json").read_text()) for name in ("models", "refusals"))
KEY = bytes.fromhex(MODELS["key"])
OWN = tuple(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (7, 8, 9))
BOARDS = {vector["name"]: vector for vector in MODELS["boards"]}
PARTS = ("manifests", "roots", "boards", "promise", "content", "own_model")


@pytest.fixture(scope="module")
def reader() -> Any:
    """Its files, as they import each other."""
    sys.path.insert(0, str(READER))
    try:
        loaded = {name: importlib.import_module(name) for name in PARTS}
    finally:
        sys.path.remove(str(READER))
        for name in PARTS:
            sys.modules.pop(name, None)
    return SimpleNamespace(**loaded)


def board_of(reader: Any, vector: dict[str, Any], **known: Any) -> dict[str, Any]:
    content = base64.b64decode(vector["packed"])
    return reader.boards.taken(
        vector["signed"],
        lambda _: content,
        reader.roots.of_key(KEY),
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

    board = board_of(reader, vector, seen=vector["earlier"][-1] if vector["earlier"] else None)

    assert {key: board[key] for key in ("task", "version", "digest")} == {
        key: wanted[key] for key in ("task", "version", "digest")
    }
    assert {
        array: {"dtype": value.dtype.str, "shape": list(value.shape)}
        for array, value in board["arrays"].items()
    } == {array: {"dtype": told["dtype"], "shape": told["shape"]} for array, told in wanted["arrays"].items()}
    sums = {array: float(value.sum()) for array, value in board["arrays"].items()}
    assert sums == pytest.approx({array: told["sum"] for array, told in wanted["arrays"].items()}, rel=1e-6)


@pytest.mark.parametrize("name", BOARDS)
def test_its_promise_is_recomputed(reader: Any, name: str) -> None:
    board, wanted = board_of(reader, BOARDS[name]), BOARDS[name]["expected"]
    plan = board["certificate"]["commitment"]["plan"]
    mu = sum(1 / multiplier**2 for multiplier in plan.values()) ** 0.5

    assert reader.promise.checked(board["certificate"]) == wanted["seal"]["promise"]
    assert reader.boards.protection(board) == ("simulation" if name == "simulation" else "private")
    assert (mu, reader.promise.epsilon(1e-5, mu)) == pytest.approx(
        (wanted["mu"], wanted["epsilon"]), rel=1e-9
    )


@pytest.mark.parametrize("who", ["several", "one"])
@pytest.mark.parametrize("name", BOARDS)
def test_a_person_gets_her_vector_and_her_twenty_best(reader: Any, name: str, who: str) -> None:
    wanted = BOARDS[name]["people"][who]

    board = board_of(reader, BOARDS[name])
    vector, _ = reader.own_model.fitted(board, wanted["ratings"])
    top = reader.own_model.best(board, wanted["ratings"])

    assert vector == pytest.approx(np.array(wanted["vector"]), abs=1e-5)
    assert [item for item, _ in top] == [item for item, _ in wanted["top"]]
    assert [score for _, score in top] == pytest.approx([score for _, score in wanted["top"]], abs=1e-4)
    assert len(top) == 20


@pytest.mark.parametrize("case", REFUSALS["cases"], ids=lambda case: case["name"])
def test_what_must_not_be_taken_is_refused_with_its_code(reader: Any, case: dict[str, Any]) -> None:
    content = base64.b64decode(REFUSALS["files"][case["file"]])
    pinned = REFUSALS["witnesses"]
    witnesses, refused = reader.roots.of_witnesses(pinned["keys"], pinned["cosignatures"]), None

    try:
        board = reader.boards.taken(
            case["signed"],
            lambda _: content,
            reader.roots.of_key(KEY, witnesses if case["witnessed"] else None),
            seen=case["seen"],
            earlier=lambda digest: found_in(case["earlier"], digest),
            simulation=case["simulation"],
            max_bytes=case["max_bytes"],
            now=case["now"] and reader.manifests.seconds(case["now"]),
        )
        assert reader.promise.checked(board["certificate"]) == "passed"
    except reader.manifests.RefusedError as error:
        refused = str(error)

    assert refused == case["refused"]


def test_every_code_that_a_file_or_manifest_can_be_refused_with_has_a_case() -> None:
    specification = (ROOT / "docs" / "reader-specification.md").read_text(encoding="utf-8")
    told = {case["refused"] for case in REFUSALS["cases"]} - {None}

    assert sorted(code for code in told if f"`{code}`" not in specification) == []
    assert told == {
        *("malformed", "bad-signature", "wrong-run", "rollback", "broken-chain", "simulation"),
        *("out-of-date", "too-large", "unreachable", "wrong-digest", "not-as-stated", "bad-certificate"),
        *("not-witnessed", "split-view", "ledger-changed"),
    }


@pytest.mark.parametrize("made", NO_ROOTS)
def test_what_is_no_root_for_the_package_is_none_here(reader: Any, made: Callable[[], bytes]) -> None:
    with pytest.raises(reader.manifests.RefusedError, match="bad-root"):
        reader.roots.of_file(made())


@pytest.mark.slow
def test_roots_are_followed_as_the_package_follows_them(reader: Any, tmp_path: Path) -> None:
    """Through two rotations, to a gap, past a thief: the drill of the package, read by the reader."""
    drill = drilled(tmp_path)
    pinned = reader.roots.of_file(drill.pinned.read_bytes())

    def read(stage: str, *versions: int) -> int | str:
        mirror = drill.mirror(stage)

        def fetched(version: int) -> bytes | None:
            place = drill.folder / "roots" / f"{version}.root.json"
            return place.read_bytes() if version in versions else None

        try:
            root = reader.roots.followed(pinned, fetched)
            return int(
                reader.manifests.opened(json.loads((mirror / "latest.json").read_text()), root)["version"]
            )
        except reader.manifests.RefusedError as refused:
            return str(refused)

    assert [read("first"), read("second", 2), read("third", 2, 3)] == [3, 4, 5]
    assert [read("theft", 2), read("third", 3), read("third"), read("first", 2)] == ["bad-signature"] * 4
    root = reader.roots.followed(pinned, lambda _: None)
    late = reader.manifests.seconds(root["expires"]) + 301
    with pytest.raises(reader.manifests.RefusedError, match="root-expired"):
        reader.roots.followed(pinned, lambda _: None, now=late)
    two = (drill.folder / "roots" / "2.root.json").read_bytes()
    plain = json.loads(two)
    plain["signatures"] = plain["signatures"][:1]
    for wrong in (json.dumps(plain).encode(), drill.pinned.read_bytes()):
        with pytest.raises(reader.manifests.RefusedError, match="bad-root"):
            reader.roots.followed(pinned, lambda _, wrong=wrong: wrong)
    (tmp_path / "mine.csv").write_text("item,rating\n1,5\n2,1\n")
    command = [sys.executable, READER / "read.py", drill.mirror("third"), drill.pinned, tmp_path / "mine.csv"]
    ended = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_root_names_other_witnesses_only_with_enough_of_those_that_are_pinned(reader: Any) -> None:
    """As for the package: the holders of the root alone do not choose who watches."""
    own = Witnesses(tuple(raw(key) for key in OWN), 2)
    pinned = reader.roots.of_witnesses([key.hex() for key in own.keys], 2)
    first = reader.roots.of_file(document(), pinned)
    terms = Terms(
        holders=Role((raw(A), raw(B)), 2),
        boards=Role((raw(C),), 1),
        witnesses=Role((raw(A), raw(B), raw(C)), 2),
    )

    unsigned = signed_by(drafted(terms, version=2, days=30), [A, B], before=None)

    def after(*more: Ed25519PrivateKey) -> list[str]:
        plain = json.loads(unsigned)
        for key in more:
            signature = key.sign(canonical_json(plain["signed"])).hex()
            plain["signatures"].append({"keyid": tuf_key_id(raw(key)), "sig": signature})
        made = json.dumps(plain).encode()
        theirs = PinnedKey(Root.from_bytes(document()), witnesses=own).successor(made).witnesses
        ours = reader.roots.followed(first, lambda version: made if version == 2 else None)["witnesses"]
        assert theirs is not None
        assert [key.hex() for key in theirs.keys] == ours["keys"]
        return list(ours["keys"])

    same = reader.roots.followed(first, lambda version: document(2) if version == 2 else None)
    assert same["witnesses"] == pinned
    assert after(*OWN[:2]) == [raw(key).hex() for key in (A, B, C)]
    for too_few in ((), OWN[:1], (A, B, C)):
        with pytest.raises(RootError):
            after(*too_few)
        with pytest.raises(reader.manifests.RefusedError, match="bad-root"):
            reader.roots.followed(first, lambda version: unsigned if version == 2 else None)


@pytest.mark.parametrize(("n", "k"), [(3, 1), (2, 1), (3, 4), (4, 2)])
def test_fewer_than_more_than_half_of_the_witnesses_are_no_policy(reader: Any, n: int, k: int) -> None:
    with pytest.raises(ValueError, match="more than half"):
        reader.roots.of_witnesses([f"{place:064x}" for place in range(n)], k)


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
    command = [sys.executable, "-c", watched, str(READER / "read.py"), *(str(tmp_path),)]

    ended = subprocess.run(
        [*command, str(tmp_path / "key.pub"), str(tmp_path / "mine.csv")],
        check=False,
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stderr) == (0, "False\n")
    assert "epsilon 4.99999" in ended.stdout
    assert "noise: private" in ended.stdout
    assert len(re.findall(r"^ *\d\.\d{3}  Film", ended.stdout, re.MULTILINE)) == 20

    def read(*options: str) -> str:
        own = [
            sys.executable,
            str(READER / "read.py"),
            *map(str, (tmp_path, tmp_path / "key.pub", tmp_path / "mine.csv")),
        ]
        return subprocess.run([*own, *options], check=False, capture_output=True, text=True).stderr

    seen = tmp_path / "seen.json"
    assert read("--seen", str(seen)) == ""
    assert json.loads(seen.read_text()) == vector["signed"]
    (tmp_path / "latest.json").write_text(json.dumps(vector["earlier"][0]))
    assert read("--seen", str(seen)) == "not taken: rollback\n"
    assert read("--witness", REFUSALS["witnesses"]["keys"][0]) == "not taken: not-witnessed\n"


@pytest.mark.parametrize("kind", ["plan, some made", "disjoint", "fixed size"])
def test_certificates_hold_here_where_they_hold_in_the_package(reader: Any, kind: str) -> None:
    """Each leaf of each of them changed, digests made to fit; only of its sentences the reader reads nothing."""
    plain = certificates.sound()[kind]
    assert reader.promise.checked(plain) == "passed"

    for path, made in certificates.changed(plain):
        try:
            here = reader.promise.checked(made)
        except reader.manifests.RefusedError:
            here = "failed"
        if here == "open":
            assert path in (("format",), ("releases", 0, "mechanism"))
        elif (here == "passed") != certificates.holds(made):
            findings = Certificate.from_dict(made).verify()
            failed = {finding.check for finding in findings if not finding.passed}
            assert (here, failed) == ("passed", {"statements"}), path
