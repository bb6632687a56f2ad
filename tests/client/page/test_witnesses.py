"""The page's own check of witnesses, another implementation: it takes what the package takes, and no more."""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedboard.client.page.boards import held_board
from fedboard.client.page.contents import policy_of
from fedboard.client.page.writing import page_of
from fedboard.common.board import Board
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.log.entries import releases_digest
from fedboard.common.boards.log.policy import WitnessPolicy
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.errors import InputError
from fedboard.server.publishing.mirror_files import Mirror
from tests.client.boards.two_faced import LEAST, Face, World, a_world, forged, merged
from tests.common.boards.boards import write_manifest

ROOT = Path(__file__).parents[3]
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as found:
        yield found


def a_case(face: Face, board: Board, *, proof: str | None, policy: WitnessPolicy | None) -> dict[str, Any]:
    signed = Mirror(face.mirror).of_version(2).signed
    return {
        "bytes": base64.b64encode(bytes(board.to_bytes())).decode(),
        "signed": {"content": signed.content, "signature": signed.signature},
        "proof": proof,
        "witnesses": policy_of(policy),
    }


def cases_of(world: World) -> dict[str, dict[str, Any]]:
    three = world.net.policy(least=LEAST)
    a, b = ((face.mirror / LOG_PROOF).read_text() for face in (world.shown_a, world.shown_b))
    both = merged(world.shown_a, world.shown_b).decode()
    keys = "\n".join(f"witness w{n} {key.public}" for n, key in enumerate(world.net.keys))
    groups = "group one all w0 w1\ngroup two any w3\ngroup q all one two\nquorum q"
    nested = WitnessPolicy.parse(f"log {world.net.log.public}\n{keys}\n{groups}")
    entries = world.shown_a.proof.history.entries
    rewritten = replace(entries[1], releases=releases_digest([{"name": "other"}]))
    net, last = world.net, entries[2]
    again = world.shown_a.other("page-again")
    manifest = world.key.public.open(Mirror(again.mirror).of_version(2).signed)
    write_manifest(Mirror(again.mirror), msgspec.structs.replace(manifest, renewal=1), key=world.key)
    other_history = "".join(f"{one.text}\n" for one in (replace(entries[0], manifest="0" * 64), *entries[1:]))
    lines = a.splitlines(keepends=True)
    log_line = next(n for n, line in enumerate(lines) if line.startswith(f"— {world.net.log.public.name}"))
    cosigned = next(n for n, line in enumerate(lines) if line.startswith("— w0"))
    flipped = lines[cosigned][:-9] + ("A" if lines[cosigned][-9] != "A" else "B") + lines[cosigned][-8:]

    def of_a(proof: str | None, policy: WitnessPolicy | None = three) -> dict[str, Any]:
        return a_case(world.shown_a, world.a, proof=proof, policy=policy)

    return {
        "the board that all see": of_a(a),
        "no policy": of_a(None, None),
        "groups of witnesses": of_a(a, nested),
        "the other board": a_case(world.shown_b, world.b, proof=b, policy=three),
        "the other board, this log": a_case(world.shown_b, world.b, proof=a, policy=three),
        "both in one log": of_a(both),
        "all by the log": of_a(forged(net, entries).decode()),
        "all four are asked for": of_a(a, world.net.policy(least=4)),
        "no proof": of_a(None),
        "a ledger that was rolled back": of_a(forged(net, (entries[0], rewritten, last)).decode()),
        "a manifest that was signed again and not logged": a_case(again, world.a, proof=a, policy=three),
        "entries that nobody cosigned": of_a(
            a.replace(lines[1], f"extra {base64.b64encode(other_history.encode()).decode()}\n")
        ),
        "a checkpoint of another name": of_a(forged(net, entries, origin="boards.example/other").decode()),
        "a checkpoint of more entries": of_a(forged(net, entries, size=4).decode()),
        "another ledger's head": of_a(
            forged(net, (*entries[:2], replace(last, ledger_head="0" * 64))).decode()
        ),
        "two runs": of_a(forged(net, (*entries, replace(last, run="books", version=9))).decode()),
        "a ledger that got shorter": of_a(
            forged(net, (*entries, replace(last, version=9, ledger_rows=0))).decode()
        ),
        "cosignatures without a time": of_a(forged(net, entries, seconds=0).decode()),
        "the log did not sign": of_a("".join(lines[:log_line] + lines[log_line + 1 :])),
        "a cosignature was changed": of_a("".join([*lines[:cosigned], flipped, *lines[cosigned + 1 :]])),
        "a checkpoint of another size": of_a(a.replace("\n3\n", "\n4\n")),
        "an older log": of_a((world.before.mirror / LOG_PROOF).read_text()),
        "another log's key": of_a(a, replace(three, log=replace(three.log, name="boards.example/other"))),
        "rubbish": of_a("rubbish"),
    }


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="JavaScript without a browser needs Node.js")
def test_the_page_takes_the_board_that_enough_witnesses_saw_and_no_other(
    world: World, tmp_path: Path
) -> None:
    cases = cases_of(world)
    file = tmp_path / "cases.json"
    told = {"key": world.key.public.raw.hex(), "cases": [{"name": n, **one} for n, one in cases.items()]}
    file.write_text(json.dumps(told))
    command = [str(NODE), str(Path(__file__).with_name("witnesses.mjs")), str(ROOT), str(file)]

    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    good = ("the board that all see", "groups of witnesses", "all by the log")
    assert {name: found[name]["witnesses"]["state"] for name in good} == dict.fromkeys(good, "passed")
    assert "w0, w1, w3 saw it, of 4 witnesses; 1 of them may lie" in found[good[0]]["witnesses"]["sentence"]
    assert "witnesses" not in found["no policy"]
    refused = {name: one["witnesses"] for name, one in found.items() if name not in (*good, "no policy")}
    assert {name: one["state"] for name, one in refused.items()} == dict.fromkeys(refused, "failed")
    assert {found[name]["state"] for name in refused} == {"failed"}
    assert {found[name]["signature"]["state"] for name in found} == {"passed"}  # nothing else tells
    assert "two boards for version 2" in refused["both in one log"]["sentence"]
    assert "shows another board" in refused["the other board, this log"]["sentence"]
    assert "Only 2 of its 4 witnesses" in refused["the other board"]["sentence"]
    assert "rolled back" in refused["a ledger that was rolled back"]["sentence"]


def test_a_page_is_not_even_written_of_a_board_that_too_few_have_seen(world: World) -> None:
    policy = world.net.policy(least=LEAST)
    held = held_board(str(world.shown_a.mirror), key=world.key.public, witnesses=policy)
    page = page_of([held], chosen=0, key=world.key.public, witnesses=policy)

    assert str(world.net.log.public) in page
    assert held.proof == (world.shown_a.mirror / LOG_PROOF).read_text()
    with pytest.raises(FeedRefusedError, match="not-witnessed"):
        held_board(str(world.shown_b.mirror), key=world.key.public, witnesses=policy)
    with pytest.raises(InputError, match="mirror"):
        held_board(str(world.shown_a.folder / "boards"), key=None, witnesses=policy)
