"""Witnessed boards from the command line and from Python: an operator with two faces, a witness who lies."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import Result

import fedboard
from fedboard.cli.exit_codes import ExitCode
from fedboard.common.errors import InputError
from fedboard.server.publishing.mirror_files import Mirror
from tests.client.boards.two_faced import Face, World
from tests.commands import done
from tests.commands import fedboard as run
from tests.common.boards.boards import chain, write_boards, write_ledger
from tests.server.publishing.running import serve_boards

SECONDS = 60.0


class Faces(World):
    """Both of them, as far as the operator and one witness could bring them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.shown_a, self.shown_b = self.before.other("a"), self.before.other("b")
        self.shown_a.show([self.a], asked=(0, 1, 3))
        self.shown_b.show([self.b], asked=(0, 1, 2, 3))
        self.shown_b.show_anyway()
        self.named = [key.hex() for key in self.net.witnesses.keys]
        self.options = [part for key in self.named for part in ("--witness", key)] + ["--cosignatures", 3]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Faces:
    return Faces(tmp_path_factory.mktemp("world") / "world")


def fetched(world: Faces, face: Face, to: Path, *more: object) -> Result:
    return run("board", "fetch", face.mirror.folder, "--key", world.public, "--to", to, *more)


def test_the_other_board_is_refused_wherever_witnesses_are_given(world: Faces, tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    ratings, items = tmp_path / "mine.csv", world.a.catalogue.item_ids
    ratings.write_text(f"item,rating\n{items[0]},5\n{items[1]},2\n")

    assert fetched(world, world.shown_a, mine, *world.options).exit_code == 0
    refused = fetched(world, world.shown_b, theirs, *world.options)
    assert "not-witnessed: too few of your witnesses have cosigned the manifest" in refused.stderr
    assert not list(theirs.glob("*.board"))
    assert fetched(world, world.shown_b, theirs).exit_code == 0  # who asks nobody takes it

    for command in (
        ("recommend", ratings),
        ("explain", items[2], ratings),
        ("explain", "--neighbours", items[2]),
    ):
        good, bad = (run(*command, boards, *world.options) for boards in (mine, theirs))
        assert (good.exit_code, bad.exit_code) == (0, 2), good.stderr
        assert "too few of your witnesses have cosigned version 2" in bad.stderr
    named = {"witnesses": world.named, "cosignatures": 3}
    assert fedboard.load_board(mine, **named).digest == world.a.digest
    with pytest.raises(InputError, match="witnesses"):
        fedboard.load_board(theirs, **named)


def test_verify_says_which_face_it_saw(world: Faces) -> None:
    def verified(face: Face, *more: object) -> tuple[int, dict[str, dict[str, object]]]:
        result = run(
            "certificate", "verify", face.mirror.folder, "--key", world.public, "--json", "--all", *more
        )
        record = json.loads(result.stdout)
        return result.exit_code, {one["check"]: one for one in (*record["passed"], *record["failed"])}

    for face in (world.shown_a, world.shown_b):
        assert verified(face)[0] == ExitCode.DONE  # every signature holds
    code, found = verified(world.shown_a, *world.options)
    assert code == ExitCode.DONE
    assert "3 of 4 witnesses must cosign; 1 of them may lie" in str(found["cosignatures"]["detail"])
    code, found = verified(world.shown_b, *world.options)
    assert code == ExitCode.FAILED
    assert "cosigned by" in str(found["cosignatures"]["detail"])


def test_python_verifies_the_witnesses_of_a_fetched_board(world: Faces, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fetched(world, world.shown_a, cache, *world.options)
    (board,) = cache.glob("*.board")
    named = {"witnesses": world.named, "cosignatures": 3}

    assert fedboard.verify(board, **named).findings[-1].passed
    assert len(fedboard.verify(board).findings) == len(fedboard.verify(board, **named).findings) - 1
    (cache / "seen.json").unlink()
    (last,) = fedboard.verify(board, **named).failed
    assert last.check == "witnesses"


def test_a_page_with_witnesses_is_written_for_one_face_alone(world: Faces, tmp_path: Path) -> None:
    def page(face: Face) -> Result:
        out = tmp_path / f"{face.folder.name}.html"
        place = face.mirror.folder
        return run("board", "page", place, "--key", world.public, "--out", out, *world.options)

    assert page(world.shown_a).exit_code == 0
    assert "not-witnessed" in page(world.shown_b).stderr
    assert not (tmp_path / "b.html").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--witness", "absent.pub"), "no public key can be read"),
        (("--witness", "ab" * 32, "--witness", "cd" * 32, "--cosignatures", 1), "must be in [2, 2]"),
        (("--witness", "ab" * 32, "--witness", "ab" * 32), "different keys"),
        (("--cosignatures", 1), "no witnesses are named"),
    ],
)
def test_a_policy_that_says_nothing_is_refused(
    tmp_path: Path, options: tuple[object, ...], told: str
) -> None:
    result = run("board", "fetch", tmp_path, "--key", "absent", "--to", tmp_path / "boards", *options)

    assert (result.exit_code, told in result.stderr) == (ExitCode.INPUT, True), result.stderr


@pytest.mark.slow
def test_witnesses_that_connect_out_and_one_that_is_replaced(tmp_path: Path) -> None:
    """The whole way by commands: three witnesses of whom two must sign, a board, and a root that changes one."""
    folder, mirror = tmp_path / "films", tmp_path / "mirror"
    write_boards(folder / "boards", made := chain(1))
    write_ledger(folder, chain(2)[-1])
    for name in ("one", "two", "three", "four"):
        done("keys", "new", "witness", "--out", tmp_path / name)
    done("keys", "new", "boards", "--out", tmp_path)
    for name in ("alice", "bob"):
        done("keys", "new", "holder", "--name", name, "--out", tmp_path)
    key, roots = tmp_path / "boards.key", tmp_path / "roots"
    holders = [part for name in ("alice", "bob") for part in ("--holder", tmp_path / f"{name}.pub")]
    signers = [part for name in ("alice", "bob") for part in ("--sign", tmp_path / f"{name}.key")]
    board_key = ("--board-key", tmp_path / "boards.pub")
    done("keys", "rotate", roots, *holders, "--threshold", 2, *board_key, *signers)

    def named(*names: str) -> list[object]:
        return [part for name in names for part in ("--witness", tmp_path / name / "witness.pub")]

    policy = [*named("one", "two", "three"), "--cosignatures", 2]
    export = ("board", "export", folder, "--to", mirror, "--key", key, "--roots", roots)
    assert "not shown yet: version 2" in done(*export, *policy)
    assert not (mirror / "latest.json").exists()

    with serve_boards(mirror, poll_seconds=0.05) as service:
        refused = cosign(service.port, tmp_path / "one", "--begin", "winter")
        assert "remembers nothing of the run films" in refused
        for name in ("one", "two"):
            assert "run films: cosigned version 2" in cosign(
                service.port, tmp_path / name, "--begin", "films"
            )
        assert Mirror(mirror).waiting() is None
        pinned, cache = roots / "1.root.json", tmp_path / "reader"
        reader = ("board", "fetch", mirror, "--key", pinned, "--to", cache, *policy)
        assert "version 2" in done(*reader)

        replaced = named("one", "two", "four")  # the third has lost its key
        done("keys", "rotate", roots, *replaced, "--cosignatures", 2, "--days", 100, *signers)
        write_boards(folder / "boards", chain(2)[len(made) :])
        done(*export, *replaced, "--cosignatures", 2)
        for name in ("one", "four"):
            cosign(service.port, tmp_path / name, "--begin", "films")
        assert "bad-root" in run(*reader).stderr  # who has pinned the three asks them, not the holders

    for name in ("one", "two"):
        done("keys", "sign", roots / "2.root.json", "--key", tmp_path / name / "witness.key")
    (mirror / "roots" / "2.root.json").write_bytes((roots / "2.root.json").read_bytes())
    assert "version 3" in done(*reader)


def cosign(port: int, folder: Path, *more: str) -> str:
    """What a witness says until it has said something of its work."""
    fedboard_command = str(Path(sys.executable).with_name("fedboard"))
    command = [fedboard_command, "witness", "--server", f"127.0.0.1:{port}", "--no-tls"]
    command += ["--key", str(folder / "witness.key"), "--memory", str(folder / "memory"), *more]
    said: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        end = time.monotonic() + SECONDS
        for line in process.stdout:
            said.append(line)
            of_work = (line.startswith("run ") and "up to" not in line) or "nothing" in line
            if of_work or time.monotonic() > end:
                break
        process.send_signal(signal.SIGTERM)
        said += process.stdout.readlines()
        assert process.wait(SECONDS) == 0
    return "".join(said)


def test_what_a_witness_cannot_begin_with_is_said(tmp_path: Path) -> None:
    for words, told in (
        (("witness", "--server", "here", "--key", tmp_path / "absent"), "the address of the server"),
        (("witness", "--server", "here:1", "--key", tmp_path / "absent"), "no private key can be read"),
    ):
        result = run(*words)
        assert (result.exit_code, told in result.stderr) == (ExitCode.INPUT, True), result.stderr
