"""What happens when keys are stolen, lost, replaced or forgotten: for a device, the page, and whoever verifies."""

import json
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from fedboard.cli.exit_codes import ExitCode
from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.fetching_cache import FetchingCache
from fedboard.client.boards.sources import FolderSource
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.roots import Root, RootError, SignedRoot
from fedboard.common.boards.validity import CLOCK_SECONDS, DAY_SECONDS, utc_seconds
from fedboard.server.operating.drafting import drafted, signed_by
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.signing import SigningKey
from tests.cli.fleet.key_drill import Drill
from tests.commands import done, fedboard, until
from tests.common.boards.boards import of_version, signed_by_hand
from tests.server.publishing.running import Signing, serve_boards
from tests.server.vouched import vouched_pair


def fetch(mirror: Path | str, key: Path, to: Path) -> str:
    """The code of the refusal, or the version that was fetched."""
    result = fedboard("board", "fetch", mirror, "--key", key, "--to", to, "--json")
    if result.exit_code:
        return json.loads(result.stdout)["error"]["sentence"].partition(":")[0]
    return str(json.loads(result.stdout)["version"])


def copied(mirror: Path, to: Path) -> Path:
    shutil.copytree(mirror, to)
    return to


def test_a_device_follows_a_rotation_and_refuses_the_stolen_key_from_then_on(
    drill: Drill, theft: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "device"

    assert fetch(drill.mirror("first"), drill.pinned, cache) == "3"
    assert fetch(drill.mirror("second"), drill.pinned, cache) == "4"
    assert fetch(theft, drill.pinned, cache) == "bad-signature"
    assert fetch(drill.mirror("theft"), drill.pinned, cache) == "bad-signature", "roots are remembered"
    assert fetch(theft, drill.pinned, tmp_path / "new device") == "bad-signature"


def test_boards_that_a_thief_signed_block_nothing_and_go_when_his_key_does(
    drill: Drill, tmp_path: Path
) -> None:
    """Also with a version from far ahead, which he hopes nothing is ever newer than."""
    cache, thief = tmp_path / "device", copied(drill.mirror("theft"), tmp_path / "thief")
    key = SigningKey.read(drill.key("first"))
    ahead = msgspec.structs.replace(key.public.open(of_version(Mirror(thief), 4).signed), version=900_000_000)
    signed = signed_by_hand(ahead.to_bytes(), key=key)
    (thief / "latest.json").write_bytes(signed.to_bytes())
    assert fetch(thief, drill.pinned, cache) == "900000000"
    stolen = of_version(Mirror(drill.mirror("theft")), 4).manifest.board_digest
    assert BoardCache(cache).holds(stolen)
    device = FetchingCache(
        cache, max_bytes=1 << 30, source=str(thief), public_key=drill.pinned, wait_seconds=0.0
    )
    assert device.holds(stolen)

    shutil.copy(drill.folder / "roots" / "2.root.json", thief / "roots")
    assert fetch(thief, drill.pinned, cache) == "bad-signature"
    assert not device.holds(stolen), "no question about his board is answered"

    assert fetch(drill.mirror("second"), drill.pinned, cache) == "4"
    assert [board.version for board in BoardCache(cache).boards()] == [4]
    assert not BoardCache(cache).holds(stolen)


def test_whoever_verifies_or_writes_a_page_refuses_the_stolen_key(
    drill: Drill, theft: Path, tmp_path: Path
) -> None:
    for mirror, refused in ((drill.mirror("second"), False), (theft, True)):
        page = fedboard("board", "page", mirror, "--key", drill.pinned, "--out", tmp_path / "page.html")
        verify = fedboard("certificate", "verify", mirror, "--key", drill.pinned)
        assert (page.exit_code != 0, verify.exit_code != 0) == (refused, refused)
        assert ("bad-signature" in page.stderr, "bad-signature" in verify.stderr) == (refused, refused)
    data = (tmp_path / "page.html").read_text()
    assert PinnedKey.read(drill.key("second", "pub")).raw.hex() in data, (
        "the page checks the newer key itself"
    )


def test_a_device_that_slept_through_two_rotations_follows_them_one_by_one(
    drill: Drill, tmp_path: Path
) -> None:
    cache = tmp_path / "device"
    fetch(drill.mirror("first"), drill.pinned, cache)

    assert fetch(drill.mirror("third"), drill.pinned, cache) == "5"

    assert sorted(path.name for path in (cache / "roots").iterdir()) == ["2.root.json", "3.root.json"]
    assert fetch(drill.mirror("second"), drill.pinned, cache) == "bad-signature", "nor does it go back"
    assert fetch(drill.mirror("third"), drill.pinned, tmp_path / "new device") == "5"


def test_a_running_service_takes_the_new_root_and_key_without_a_restart(drill: Drill, tmp_path: Path) -> None:
    """Over gRPC: readers of before follow, nobody is sent away in between, and watchers are told."""
    roots, key, cache = _roots(drill, tmp_path, 1), tmp_path / "boards.key", tmp_path / "device"
    shutil.copy(drill.key("first"), key)
    signing = Signing(boards=drill.folder / "summer" / "boards", key=key, run="summer", roots=roots)
    with serve_boards(tmp_path / "mirror", signing=signing, poll_seconds=0.05) as service:
        place = f"grpc://127.0.0.1:{service.port}"
        assert fetch(place, drill.pinned, cache) == "5"
        assert not (cache / "roots").exists()

        shutil.copy(drill.folder / "roots" / "2.root.json", roots)
        until(lambda: service.problem is not None)
        assert "does not name the signing key" in service.problem
        assert fetch(place, drill.pinned, cache) == "5", "what is published stays"
        shutil.copy(drill.key("second"), key)
        until(lambda: service.problem is None)
        until(lambda: fetch(place, drill.pinned, cache) == "5" and (cache / "roots" / "2.root.json").exists())

        assert fedboard("certificate", "verify", place, "--key", drill.pinned).exit_code == 0
        assert fetch(drill.mirror("theft"), drill.pinned, cache) == "bad-signature"


def test_a_chain_with_a_gap_is_followed_to_the_gap(drill: Drill, tmp_path: Path) -> None:
    mirror = copied(drill.mirror("third"), tmp_path / "mirror")
    (mirror / "roots" / "2.root.json").unlink()
    assert fetch(mirror, drill.pinned, tmp_path / "a") == "bad-signature"

    shutil.copy(mirror / "roots" / "3.root.json", mirror / "roots" / "2.root.json")
    assert fetch(mirror, drill.pinned, tmp_path / "b") == "bad-root"


def unsigned(content: bytes, *keep: bytes) -> bytes:
    """A root with the signatures of these keys alone."""
    plain = json.loads(content)
    plain["signatures"] = {key.hex(): plain["signatures"][key.hex()] for key in keep}
    return json.dumps(plain).encode()


def test_a_root_that_too_few_have_signed_does_not_follow(drill: Drill, tmp_path: Path) -> None:
    """Of the root before, and of itself: each threshold counts, and each key once."""
    from fedboard.common.boards.ed25519_keys import read_private

    one, two = (Root.from_bytes(drill.pinned.read_bytes()), (drill.folder / "roots/2.root.json").read_bytes())
    names = ("alice", "bob", "carol", "dora")
    private = {name: read_private(drill.holder(name), signed="roots") for name in names}
    raw = {name: key.public_key().public_bytes_raw() for name, key in private.items()}
    draft = drafted(
        {**one.roles, "root": type(one.roles["root"])((raw["carol"], raw["dora"]), 2)}, version=2, days=9
    )
    plain = json.loads(signed_by(draft, [private["alice"], private["carol"]], before=one))
    own = plain["signatures"][raw["alice"].hex()]
    under_another_id = plain | {"signatures": {raw["alice"].hex(): own, raw["bob"].hex(): own}}
    wrong = {
        "nobody": unsigned(two),
        "one of two": unsigned(two, raw["alice"]),
        "enough of the old, too few of the new": json.dumps(plain).encode(),
        "enough of the new, too few of the old": signed_by(
            draft, [private["carol"], private["dora"]], before=one
        ),
        "one under two ids": json.dumps(under_another_id).encode(),
        "other terms under the same signatures": two.replace(b'"threshold\\":2', b'"threshold\\":1'),
        "the same version again": drill.pinned.read_bytes(),
        "rubbish": b"<html>not found</html>",
    }
    assert two.replace(b'"threshold\\":2', b'"threshold\\":1') != two
    for name, content in wrong.items():
        mirror = copied(drill.mirror("first"), tmp_path / name)
        (mirror / "roots" / "2.root.json").write_bytes(content)
        assert fetch(mirror, drill.pinned, tmp_path / f"{name}.device") == "bad-root", name
        with pytest.raises(RootError):
            one.successor(content)
    everybody = signed_by(draft, [private[name] for name in ("alice", "carol", "dora")], before=one)
    assert one.successor(everybody).version == 2


def test_the_holder_of_a_board_key_makes_no_root(drill: Drill) -> None:
    from fedboard.common.boards.ed25519_keys import read_private

    one, thief = Root.from_bytes(drill.pinned.read_bytes()), read_private(drill.key("first"), signed="boards")
    alone = type(one.roles["root"])((thief.public_key().public_bytes_raw(),), 1)
    taken_over = signed_by(drafted({"root": alone, "boards": alone}, version=2, days=9), [thief], before=one)

    with pytest.raises(RootError, match="not signed by 2 of the root keys of version 1"):
        one.successor(taken_over)


def test_a_root_expires_and_its_holders_renew_it(drill: Drill, tmp_path: Path) -> None:
    mirror, cache = copied(drill.mirror("third"), tmp_path / "mirror"), BoardCache(tmp_path / "device")
    until = utc_seconds(Root.from_bytes((mirror / "roots/3.root.json").read_bytes()).expires or "")
    # The manifest is good for as long as that, so that only the root is out of date.
    done("keys", "renew", mirror, "--key", drill.key("third"), "--days", 900)

    def at(seconds: float, version: int | None = None) -> FeedCode | int:
        feed = BoardFeed(FolderSource(mirror), PinnedKey.read(drill.pinned), cache, clock=lambda: seconds)
        try:
            return feed.fetch(version).manifest.version
        except FeedRefusedError as error:
            return error.code

    assert at(until + CLOCK_SECONDS) == 5
    assert at(until + CLOCK_SECONDS + 1) is FeedCode.ROOT_EXPIRED
    assert at(until + CLOCK_SECONDS + 1, 4) is FeedCode.ROOT_EXPIRED, "nor an old board by its number"

    roots = copied(drill.folder / "roots", tmp_path / "roots")
    signers = ("--sign", drill.holder("bob"), "--sign", drill.holder("dora"))
    done("keys", "rotate", roots, "--days", 800, *signers)
    done("keys", "renew", mirror, "--key", drill.key("third"), "--days", 900, "--roots", roots)
    assert at(until + CLOCK_SECONDS + 1) == 5


def test_renewal_changes_no_board_and_is_told(drill: Drill, tmp_path: Path) -> None:
    mirror = copied(drill.mirror("second"), tmp_path / "mirror")
    files = {path.name: path.read_bytes() for path in (mirror / "files").iterdir()}
    before = json.loads(json.loads((mirror / "latest.json").read_text())["content"])

    told = done("keys", "renew", mirror, "--key", drill.key("second"), "--days", "10")

    after = json.loads(json.loads((mirror / "latest.json").read_text())["content"])
    assert (before["renewal"] + 1, before["board_digest"]) == (after["renewal"], after["board_digest"])
    assert told == f"version 4 of summer: good until {after['expires']}\n"
    assert utc_seconds(after["expires"]) - time.time() == pytest.approx(10 * DAY_SECONDS, abs=3600)
    assert files == {path.name: path.read_bytes() for path in (mirror / "files").iterdir()}
    assert fetch(mirror, drill.pinned, tmp_path / "device") == "4"


def test_earlier_boards_are_vouched_for_by_the_new_key_and_may_not_pass_for_the_newest(
    drill: Drill, tmp_path: Path
) -> None:
    """What the old key signed counts as far as the chain of the new one names it, and no further."""
    mirror = drill.mirror("third")
    assert fedboard("certificate", "verify", mirror, "--key", drill.pinned).exit_code == 0
    feed = BoardFeed(FolderSource(mirror), PinnedKey.read(drill.pinned), BoardCache(tmp_path / "cache"))
    assert [feed.fetch(version).manifest.version for version in (2, 3, 4, 5)] == [2, 3, 4, 5]

    shown = copied(mirror, tmp_path / "mirror")
    (shown / "latest.json").write_bytes(of_version(Mirror(shown), 3).signed.to_bytes())

    assert fetch(shown, drill.pinned, tmp_path / "new") == "bad-signature"


def test_the_publisher_refuses_a_key_that_was_replaced(drill: Drill, tmp_path: Path) -> None:
    mirror, run = copied(drill.mirror("second"), tmp_path / "mirror"), drill.folder / "summer"

    export = fedboard("board", "export", run, "--to", mirror, "--key", drill.key("first"))
    renew = fedboard("keys", "renew", mirror, "--key", drill.key("first"))
    forgot = fedboard(
        *("board", "export", run, "--to", copied(drill.mirror("third"), tmp_path / "third")),
        *("--key", drill.key("second"), "--roots", _roots(drill, tmp_path, 2)),
    )

    for refused in (export, renew):
        assert refused.exit_code == ExitCode.INPUT
        assert "does not name the signing key" in refused.stderr
    assert "copy the newer ones here first" in forgot.stderr


def _roots(drill: Drill, folder: Path, newest: int) -> Path:
    place = folder / f"roots-{newest}"
    place.mkdir()
    for version in range(1, newest + 1):
        shutil.copy(drill.folder / "roots" / f"{version}.root.json", place)
    return place


def test_a_board_that_two_keys_must_sign_is_signed_by_both(drill: Drill, tmp_path: Path) -> None:
    roots, mirror = _roots(drill, tmp_path, 1), tmp_path / "mirror"
    two = ("--board-key", drill.key("first", "pub"), "--board-key", drill.key("second", "pub"))
    signers = ("--sign", drill.holder("alice"), "--sign", drill.holder("bob"))
    done("keys", "rotate", roots, *two, "--board-threshold", 2, *signers)
    export = ("board", "export", drill.folder / "summer", "--to", mirror, "--roots", roots)

    alone = fedboard(*export, "--key", drill.key("first"))
    done(*export, "--key", drill.key("first"), "--key", drill.key("second"))

    assert "asks for the signatures of 2 keys, and 1 signs here" in alone.stderr
    assert fetch(mirror, drill.pinned, tmp_path / "device") == "5"
    signed = json.loads((mirror / "latest.json").read_text())
    first = signed["signatures"][0]
    for fewer in ([first], [first, first]):
        (mirror / "latest.json").write_text(json.dumps(signed | {"signatures": fewer}))
        assert fetch(mirror, drill.pinned, tmp_path / f"other {len(fewer)}") == "bad-signature"


def test_who_has_pinned_one_key_follows_it_to_a_root(drill: Drill, tmp_path: Path) -> None:
    """A fleet of before, whose readers have board-signing.pub and nothing else."""
    roots, mirror, cache = tmp_path / "roots", tmp_path / "mirror", tmp_path / "device"
    run, first = drill.folder / "summer", drill.key("first", "pub")
    done("board", "export", run, "--to", mirror, "--key", drill.key("first"))
    assert fetch(mirror, first, cache) == "5"
    thief = copied(mirror, tmp_path / "theft")

    holders = [part for name in ("alice", "bob") for part in ("--holder", drill.holder(name, "pub"))]
    signers = ("--sign", drill.holder("alice"), "--sign", drill.holder("bob"))
    terms = (*holders, "--threshold", 2, "--board-key", drill.key("second", "pub"))
    done("keys", "rotate", roots, *terms, "--instead-of", drill.key("first"), *signers)
    done("board", "export", run, "--to", mirror, "--key", drill.key("second"), "--roots", roots)

    assert fetch(mirror, first, cache) == "5"
    assert fetch(mirror, roots / "1.root.json", tmp_path / "who pinned the root") == "5"
    done("keys", "renew", thief, "--key", drill.key("first"))
    assert fetch(thief, first, cache) == "bad-signature"
    shutil.copytree(mirror / "roots", thief / "roots")
    assert fetch(thief, first, tmp_path / "new device") == "bad-signature"


def test_what_expires_is_shown_and_a_timer_can_watch_it(drill: Drill, tmp_path: Path) -> None:
    from fedboard.common.boards.ed25519_keys import read_private

    vouched_pair(tmp_path)
    shown = json.loads(done("keys", "show", drill.mirror("third"), tmp_path / "server.pem", "--json"))
    kinds = [[one["what"] for one in place["expiries"]] for place in shown["places"]]
    assert [len(each) for each in kinds] == [2, 1]
    assert all(not one["soon"] for one in shown["places"][0]["expiries"])

    past = tmp_path / "past"
    past.mkdir()
    root = Root.from_bytes(drill.pinned.read_bytes())
    keys = [read_private(drill.holder(name), signed="roots") for name in ("alice", "bob")]
    draft = drafted(root.roles, version=1, days=1, clock=lambda: time.time() - 2 * DAY_SECONDS)
    (past / "1.root.json").write_bytes(signed_by(draft, keys, before=None))
    gone = fedboard("keys", "show", past)
    assert gone.exit_code == ExitCode.FAILED
    assert "ended 1.0 days ago" in gone.stdout
    run = drill.folder / "summer"
    export = ("board", "export", run, "--to", tmp_path / "mirror", "--key", drill.key("first"))
    refused = fedboard(*export, "--roots", past)
    assert "of the root has expired" in refused.stderr
    assert not (tmp_path / "mirror" / "latest.json").exists()


def test_mistakes_are_said(drill: Drill, tmp_path: Path) -> None:
    roots = _roots(drill, tmp_path, 1)
    for arguments, told in (
        (("keys", "rotate", roots, "--instead-of", drill.key("first")), "roots are there already"),
        (("keys", "rotate", roots, "--threshold", 4), "must be in [1, 3], got 4"),
        (("keys", "sign", roots / "1.root.json", "--key", drill.holder("carol")), "signed this root already"),
    ):
        result = fedboard(*arguments)
        assert (result.exit_code, told in result.stderr) == (ExitCode.INPUT, True), result.stderr
    done("keys", "rotate", roots)
    assert "this draft waits for signatures" in fedboard("keys", "rotate", roots).stderr
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(roots / "2.root.json", alone)
    signed = done("keys", "sign", alone / "2.root.json", "--key", drill.holder("bob"))
    assert "not complete: the root of version 1 is not beside it" in signed
    stranger = fedboard("keys", "sign", roots / "2.root.json", "--key", drill.holder("dora"))
    assert "is not for this key to sign" in stranger.stderr
    assert SignedRoot.from_bytes((roots / "2.root.json").read_bytes()).signatures == {}
