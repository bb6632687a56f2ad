"""Witnessed boards from the command line and from Python: an operator with two faces, a witness who lies."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import fedboard
from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.main import commands
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.errors import InputError
from tests.client.boards.two_faced import LEAST, Face, World, a_world
from tests.common.boards.boards import chain, write_boards, write_ledger


def run(*arguments: object) -> Result:
    return CliRunner().invoke(commands, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as found:
        yield found


@pytest.fixture(scope="module")
def policy(world: World) -> Path:
    """As everybody has it, without addresses."""
    return world.net.policy_file(least=LEAST, only=(), name="readers.policy")


def fetched(world: World, face: Face, to: Path, *more: object) -> Result:
    return run("board", "fetch", face.mirror, "--key", world.public, "--to", to, *more)


def test_the_other_board_is_refused_wherever_a_policy_is_given(
    world: World, policy: Path, tmp_path: Path
) -> None:
    mine, hers = tmp_path / "mine", tmp_path / "hers"
    witnesses = ("--witnesses", policy)
    ratings = tmp_path / "mine.csv"
    items = world.a.catalogue.item_ids
    ratings.write_text(f"item,rating\n{items[0]},5\n{items[1]},2\n")

    assert fetched(world, world.shown_a, mine, *witnesses).exit_code == 0
    refused = fetched(world, world.shown_b, hers, *witnesses)
    assert "not-witnessed: no log of boards that enough of your witnesses have cosigned" in refused.stderr
    assert not list(hers.glob("*.board"))
    assert fetched(world, world.shown_b, hers).exit_code == 0  # who asks nobody takes it

    for command in (("recommend", ratings), ("explain", items[2], ratings), ("neighbours", items[2])):
        good, bad = (run(*command, boards, *witnesses) for boards in (mine, hers))
        assert (good.exit_code, bad.exit_code) == (0, 2), good.stderr
        assert "no log of boards that enough witnesses have cosigned" in bad.stderr
    assert fedboard.load_board(mine, witnesses=policy).digest == world.a.digest
    with pytest.raises(InputError, match="witnesses"):
        fedboard.load_board(hers, witnesses=policy)


def test_verify_says_which_face_it_saw(world: World, policy: Path) -> None:
    def verified(face: Face, *more: object) -> tuple[int, dict[str, object]]:
        result = run("board", "verify", face.mirror, "--key", world.public, "--json", *more)
        return result.exit_code, {one["check"]: one for one in json.loads(result.stdout)["findings"]}

    for face in (world.shown_a, world.shown_b):
        assert verified(face)[0] == ExitCode.DONE  # every signature holds
    code, found = verified(world.shown_a, "--witnesses", policy)
    assert code == ExitCode.DONE
    assert "cosigned by w0, w1, w3; 4 witnesses" in found["log of boards"]["detail"]
    code, found = verified(world.shown_b, "--witnesses", policy)
    assert code == ExitCode.FAILED
    assert found["log of boards"]["passed"] is False


def test_python_verifies_the_witnesses_of_a_fetched_board(world: World, policy: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fetched(world, world.shown_a, cache, "--witnesses", policy)
    (board,) = cache.glob("*.board")

    assert fedboard.verify(board, witnesses=policy).findings[-1].passed
    assert len(fedboard.verify(board).findings) == len(fedboard.verify(board, witnesses=policy).findings) - 1
    (cache / LOG_PROOF).unlink()
    (last,) = fedboard.verify(board, witnesses=policy).failed
    assert last.check == "witnesses"


def test_export_logs_and_asks_and_says_who_cosigned(world: World, tmp_path: Path) -> None:
    """Another run, with a log and a key of its own, whose witnesses do not know it."""
    log = tmp_path / "board-log"
    boards = tmp_path / "autumn"
    write_boards(boards / "boards", made := chain(3))
    write_ledger(boards, made[-1])
    made = run("keys", "log", "--out", log, "--name", "boards.example/autumn")
    assert made.stdout.startswith("log boards.example/autumn+")
    key = ("--key", world.private, "--run", "autumn")
    exported = run("board", "export", boards, "--to", tmp_path / "mirror", *key, "--log", log)

    assert exported.exit_code == 0, exported.stderr
    assert "log of boards: 3 entries, no witnesses that are asked" in exported.stdout
    assert (tmp_path / "mirror" / LOG_PROOF).exists()
    again = run("board", "export", boards, "--to", tmp_path / "mirror", *key, "--witnesses", world.net.folder)
    assert again.exit_code == 2
    assert "--witnesses goes with --log" in again.stderr
    other = world.net.policy_file(least=LEAST)
    wrong = run(
        "board", "export", boards, "--to", tmp_path / "mirror", *key, "--log", log, "--witnesses", other
    )
    assert wrong.exit_code == 2
    assert "the policy of witnesses is for boards.example/films" in wrong.stderr


def test_a_page_with_witnesses_is_written_for_one_face_alone(
    world: World, policy: Path, tmp_path: Path
) -> None:
    def page(face: Face) -> Result:
        out = tmp_path / f"{face.folder.name}.html"
        return run("board", "page", face.mirror, "--key", world.public, "--out", out, "--witnesses", policy)

    assert page(world.shown_a).exit_code == 0
    assert "not-witnessed" in page(world.shown_b).stderr
    assert not (tmp_path / "b.html").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("keys", "witness", "--name", "two words"), "without spaces"),
        (("witness", "--key", "absent", "--log", "x"), "no private key can be read"),
    ],
)
def test_what_a_witness_cannot_begin_with_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2
    assert told in result.stderr
