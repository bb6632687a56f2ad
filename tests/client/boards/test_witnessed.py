"""An operator shows different boards to different people: who has witnesses takes neither, or the same one.

Each attack is made with every key that the operator has, and with one witness that is in league with him. Each test
fails where the check that it is about is taken out.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.fetching_cache import FetchingCache
from fedboard.client.boards.mirror_check import check_source
from fedboard.client.boards.open_board import open_board
from fedboard.client.boards.sources import FolderSource, open_source
from fedboard.client.boards.witnessed import EVIDENCE, WitnessedLog
from fedboard.client.device.policy import Policy
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.log.entries import BoardEntry, releases_digest
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind
from fedboard.common.boards.log.proofs import LogProof
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import InputError
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.wire.refusals import Refusal
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.service import ServiceSettings, start_board_service
from fedboard.server.publishing.signing import SigningKey
from tests.client.boards.two_faced import AT_ONCE, LEAST, TASK, Face, World, a_face, a_world, forged, merged
from tests.client.certified_boards import RUN, Device, certified_boards, with_certificate
from tests.common.boards.boards import keys, write_manifest
from tests.server.publishing.log.network import network


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as found:
        yield found


def code_of(action: Callable[[], object]) -> FeedCode:
    with pytest.raises(FeedRefusedError) as refused:
        action()
    return refused.value.code


def put(face: Face, proof: bytes, name: str) -> Face:
    """The same face with another proof beside its boards."""
    made = face.other(name)
    (made.mirror / LOG_PROOF).write_bytes(proof)
    return made


def test_both_boards_hold_but_only_one_of_them_is_witnessed(world: World, tmp_path: Path) -> None:
    """Without witnesses nobody can tell: signatures, chain and certificates of both are as they should be."""
    for face in (world.shown_a, world.shown_b):
        findings = check_source(FolderSource(face.mirror), world.key.public, max_bytes=1 << 30)
        assert all(finding.passed for finding in findings)
        plain = BoardFeed(
            FolderSource(face.mirror), world.key.public, BoardCache(tmp_path / face.folder.name)
        )
        assert plain.fetch().manifest.version == 2
    assert world.shown_a.cosigned_by() == {"w0", "w1", "w3"}
    assert world.shown_b.cosigned_by() == {"w2", "w3"}  # who had seen neither, and who lies

    assert world.feed(world.shown_a, tmp_path / "one").fetch().manifest.board_digest == world.a.digest
    assert code_of(world.feed(world.shown_b, tmp_path / "two").fetch) is FeedCode.NOT_WITNESSED
    assert not list((tmp_path / "two").glob("*.board"))


def a_device(world: World, face: Face, folder: Path, *, published_only: bool = True) -> Device:
    """A phone whose owner relies on three of the four witnesses."""
    policy_file = world.net.policy_file(least=LEAST)
    policy = Policy(
        epsilon=20.0, delta=1e-5, smallest_catalogue=5, published_only=published_only, witnesses=policy_file
    )
    cache = FetchingCache(
        folder / "boards",
        max_bytes=1 << 30,
        source=str(face.mirror),
        public_key=world.public,
        wait_seconds=0.0,
        witnesses=world.net.policy(least=LEAST),
    )
    log = WitnessedLog(world.net.policy(least=LEAST), folder / "boards")
    return Device(folder, policy, cache=cache, log=log)


def test_a_device_answers_about_the_board_that_all_see_and_nothing_about_hers_alone(
    world: World, tmp_path: Path
) -> None:
    phone_a = a_device(world, world.shown_a, tmp_path / "a")
    phone_b = a_device(world, world.shown_b, tmp_path / "b")

    assert phone_a.code(world.a) is None
    assert phone_b.code(world.b) is Refusal.NOT_WITNESSED
    assert phone_b.booked() == []
    assert phone_a.code(world.b) is not None
    assert phone_b.refusals() == {Refusal.NOT_WITNESSED: 1}


def test_a_board_that_was_fetched_without_witnesses_is_not_answered_either(
    world: World, tmp_path: Path
) -> None:
    """It lies in her cache, signed; no log says that others have it."""
    cache = BoardCache(tmp_path / "boards")
    BoardFeed(FolderSource(world.shown_b.mirror), world.key.public, cache).fetch()
    device = a_device(world, world.shown_b, tmp_path, published_only=False)
    device.cache = cache

    assert cache.holds(world.b.digest)
    assert device.code(world.b) is Refusal.NOT_WITNESSED
    device.log = None  # nor where nobody looked
    assert device.code(world.b) is Refusal.NOT_WITNESSED


def test_a_device_that_knows_the_log_answers_only_about_the_board_in_it(world: World, tmp_path: Path) -> None:
    """Both boards are in her cache, signed, and of the same version."""
    cache = BoardCache(tmp_path / "boards")
    BoardFeed(FolderSource(world.shown_b.mirror), world.key.public, cache).fetch()
    (cache.folder / "seen.json").unlink()
    world.feed(world.shown_a, cache.folder).fetch()
    device = a_device(world, world.shown_a, tmp_path, published_only=False)
    device.cache = cache

    assert cache.holds(world.a.digest)
    assert cache.holds(world.b.digest)
    assert device.code(world.b) is Refusal.NOT_WITNESSED
    assert device.code(world.a) is None


def test_a_device_answers_about_the_first_board_which_questions_bring_without_a_certificate(
    world: World, tmp_path: Path
) -> None:
    """Readers get it with one, whose ledger is empty."""
    budget = Budget(epsilon=100.0, delta=1e-5, adjacency=TASK.settings.shared.adjacency)
    with Ledger.create(tmp_path / "first.sqlite", budget, run=RUN) as ledger:
        published = with_certificate(world.common[0], ledger)
    with network(tmp_path / "net", honest=1) as net:
        face = a_face(tmp_path / "first", net, world.key, run=RUN)
        face.show([published], asked=(0,))
        log = WitnessedLog(net.policy(least=1), tmp_path)
        log.take((face.mirror / LOG_PROOF).read_bytes())

        assert log.seen().history.entries[0].ledger_head != "-"
        assert world.common[0].certificate is None
        assert log.shows(world.common[0], run=RUN)
        assert log.shows(published, run=RUN)
        assert not log.shows(world.a, run=RUN)


def test_a_device_answers_only_the_run_of_the_log_and_of_one_ledger(world: World, tmp_path: Path) -> None:
    """Else an operator begins another run with the same boards for one person. A server puts its ledger's id behind
    the name of the run.
    """
    phone = a_device(world, world.shown_a, tmp_path)
    one, other = f"{RUN}-{'0' * 32}", f"{RUN}-{'1' * 32}"

    assert phone.code(world.a, run="movies-for-you") is Refusal.NOT_WITNESSED
    assert phone.code(world.a, run=f"{RUN}-for-you") is Refusal.NOT_WITNESSED
    assert phone.code(world.a, run=one) is None
    assert phone.code(world.a, run=other) is Refusal.NOT_WITNESSED
    assert {run for run, _, _ in phone.booked()} == {one}


def test_the_verifier_names_what_is_wrong(world: World) -> None:
    policy = world.net.policy(least=LEAST)

    def found(face: Face) -> dict[str, tuple[bool | None, str]]:
        source = FolderSource(face.mirror)
        findings = check_source(source, world.key.public, max_bytes=1 << 30, witnesses=policy)
        return {one.check: (one.passed, one.detail) for one in findings}

    good, bad = found(world.shown_a), found(world.shown_b)
    assert all(passed for passed, _ in good.values())
    assert good["log of boards"][1].startswith("3 entries, cosigned by w0, w1, w3; 4 witnesses")
    assert "; logged" in good["version 2"][1]
    assert bad["log of boards"] == (False, str(FeedRefusedError(FeedCode.NOT_WITNESSED)))
    mixed = found(put(world.shown_b, (world.shown_a.mirror / LOG_PROOF).read_bytes(), "mixed"))
    assert mixed["log of boards"] == (False, str(FeedRefusedError(FeedCode.SPLIT_VIEW)))


def test_the_log_of_one_face_does_not_show_the_board_of_the_other(world: World, tmp_path: Path) -> None:
    """The proof that all witnesses cosigned, beside the board that they did not see."""
    mixed = put(world.shown_b, (world.shown_a.mirror / LOG_PROOF).read_bytes(), "b-with-proof-of-a")

    assert code_of(world.feed(mixed, tmp_path / "cache").fetch) is FeedCode.SPLIT_VIEW


def test_both_boards_in_one_log_are_shown_to_nobody_though_every_witness_cosigned(
    world: World, tmp_path: Path
) -> None:
    """It is append-only, so witnesses cannot refuse it; whoever reads it can, also who took board A before."""
    both = merged(world.shown_a, world.shown_b)
    reader_of_a = world.feed(world.shown_a, tmp_path / "a")
    reader_of_a.fetch()

    for number, face in enumerate((world.shown_a, world.shown_b)):
        shown = put(face, both, f"both-{number}")
        assert code_of(world.feed(shown, tmp_path / f"new-{number}").fetch) is FeedCode.SPLIT_VIEW
        assert code_of(world.feed(shown, tmp_path / "a").fetch) is not None
    log = WitnessedLog(world.net.policy(least=LEAST), tmp_path / "a")
    assert code_of(lambda: log.take(both)) is FeedCode.SPLIT_VIEW


def test_a_reader_who_saw_one_log_refuses_the_other_though_every_witness_lies_and_keeps_the_proof(
    world: World, tmp_path: Path
) -> None:
    """What she saw herself needs nobody's word; both proofs are signed by the log."""
    log = WitnessedLog(world.net.policy(least=LEAST), tmp_path)
    log.take((world.shown_a.mirror / LOG_PROOF).read_bytes())

    assert (
        code_of(lambda: log.take(forged(world.net, world.shown_b.proof.history.entries)))
        is FeedCode.SPLIT_VIEW
    )
    assert LogProof.from_bytes((tmp_path / EVIDENCE).read_bytes()).note.signed_by(world.net.log.public)
    assert log.has(world.a.digest)
    assert not log.has(world.b.digest)


def test_a_contradiction_that_the_log_did_not_sign_is_no_evidence_against_it(
    world: World, tmp_path: Path
) -> None:
    """Else anybody on the way could make readers believe that the operator lies."""
    log = WitnessedLog(world.net.policy(least=LEAST), tmp_path)
    log.take((world.shown_a.mirror / LOG_PROOF).read_bytes())
    stranger = replace(world.net, log=NoteKey.generate(world.net.log.public.name, Kind.NOTE))

    assert (
        code_of(lambda: log.take(forged(stranger, world.shown_b.proof.history.entries)))
        is FeedCode.NOT_WITNESSED
    )
    assert not (tmp_path / EVIDENCE).exists()


def test_a_manifest_that_was_signed_again_and_not_logged_is_not_taken(world: World, tmp_path: Path) -> None:
    """It is the logged board; what else is in the manifest nobody has seen."""
    again = world.shown_a.other("again")
    manifest = world.key.public.open(Mirror(again.mirror).signed(2))
    write_manifest(Mirror(again.mirror), msgspec.structs.replace(manifest, renewal=1), key=world.key)

    assert code_of(world.feed(again, tmp_path / "cache").fetch) is FeedCode.NOT_WITNESSED


def test_a_frozen_log_is_refused_once_a_newer_one_was_seen(world: World, tmp_path: Path) -> None:
    log = WitnessedLog(world.net.policy(least=LEAST), tmp_path)
    log.take((world.shown_a.mirror / LOG_PROOF).read_bytes())

    assert code_of(lambda: log.take((world.before.mirror / LOG_PROOF).read_bytes())) is FeedCode.ROLLBACK
    fresh = WitnessedLog(world.net.policy(least=LEAST), tmp_path / "nobody")
    (tmp_path / "nobody").mkdir()
    fresh.take((world.before.mirror / LOG_PROOF).read_bytes())  # who knows no more cannot tell


def test_a_ledger_that_was_rolled_back_is_seen_from_the_newest_board(world: World, tmp_path: Path) -> None:
    """The operator rewrote what was booked and logged board 2 with the new ledger: a reader who has board 2 and
    the log sees that the releases of board 1 are not the ones that were logged.
    """
    first = world.common[1]
    certificate = dict(first.certificate)
    releases = [{**release, "covers": "something else"} for release in certificate["releases"]]
    entries = list(world.shown_a.proof.history.entries)
    earlier = with_releases(entries[1], releases)
    rewritten = (entries[0], earlier, entries[2])
    shown = put(world.shown_a, forged(world.net, rewritten), "rolled-back")

    assert code_of(world.feed(shown, tmp_path / "cache").fetch) is FeedCode.LEDGER_CHANGED
    assert not list((tmp_path / "cache").glob("*.board"))


def with_releases(entry: BoardEntry, releases: list[dict[str, object]]) -> BoardEntry:
    return replace(entry, releases=releases_digest(releases))


@pytest.mark.parametrize(
    "damage",
    [
        lambda proof: proof[:-40],
        lambda proof: b"",
        lambda proof: proof.replace(b"index 2", b"index 1"),
        lambda proof: proof.replace(b"boards.example/films", b"boards.example/other"),
        lambda proof: proof.replace(b"\n3\n", b"\n4\n"),
    ],
)
def test_a_proof_that_was_changed_on_the_way_is_refused(
    world: World, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    proof = (world.shown_a.mirror / LOG_PROOF).read_bytes()
    log = WitnessedLog(world.net.policy(least=LEAST), tmp_path)

    assert damage(proof) != proof
    assert code_of(lambda: log.take(damage(proof))) is FeedCode.NOT_WITNESSED


def test_boards_that_nobody_logs_are_refused_by_whoever_has_witnesses(world: World, tmp_path: Path) -> None:
    unlogged = world.shown_a.other("unlogged")
    (unlogged.mirror / LOG_PROOF).unlink()

    assert code_of(world.feed(unlogged, tmp_path / "cache").fetch) is FeedCode.NOT_WITNESSED


def test_cosignatures_that_come_later_are_enough(world: World, tmp_path: Path) -> None:
    """The board was shown when too few witnesses had answered."""
    with network(tmp_path / "net", honest=2) as net:
        late = a_face(tmp_path / "late", net, world.key, run=RUN)
        late.show([*world.common, world.a], asked=(0,))
        source, cache = FolderSource(late.mirror), BoardCache(tmp_path / "cache")
        witnesses = net.policy(least=2)
        feed = BoardFeed(source, world.key.public, cache, witnesses=witnesses, patience=AT_ONCE)
        assert code_of(feed.fetch) is FeedCode.NOT_WITNESSED

        late.show([], asked=(0, 1))

        assert feed.fetch().manifest.version == 2


def test_two_of_three_do_not_bear_a_witness_that_lies_and_three_of_four_do(tmp_path: Path) -> None:
    """The operator shows A to one honest witness, B to the other, and both to the one who lies. It works against
    two of three, which looks like a majority and is none; the policy says how many may lie.
    """
    world_boards = tmp_path / "boards"
    world_boards.mkdir()
    *common, a = certified_boards(world_boards, TASK)
    with Ledger.open(world_boards / f"{RUN}.sqlite", read_only=True) as ledger:
        other = common[-1].successor(**{**a.arrays, "item_factors": a.arrays["item_factors"] * 1.5})
        b = with_certificate(other, ledger)
    private, _ = keys(tmp_path / "keys")
    for honest, least, expected in ((2, 2, 2), (3, 3, 1)):
        folder = tmp_path / str(honest)
        with network(folder / "net", honest=honest, hostile=1) as net:
            before = a_face(folder / "before", net, SigningKey.read(private), run=RUN)
            before.show(common, asked=range(honest + 1))
            shown = [before.other("a"), before.other("b")]
            shown[0].show([a], asked=(0, honest))
            shown[1].show([b], asked=(*range(1, honest), honest))
            policy = net.policy(least=least)
            assert sum(policy.suffices(face.proof.note) for face in shown) == expected
            assert policy.bears == (0 if expected == 2 else 1)


def test_who_recommends_with_witnesses_uses_no_board_that_they_have_not_seen(
    world: World, tmp_path: Path
) -> None:
    policy = world.net.policy(least=LEAST)
    world.feed(world.shown_a, tmp_path / "a").fetch()
    BoardFeed(FolderSource(world.shown_b.mirror), world.key.public, BoardCache(tmp_path / "b")).fetch()

    assert open_board(tmp_path / "a", witnesses=policy).digest == world.a.digest
    assert open_board(tmp_path / "b").digest == world.b.digest
    with pytest.raises(InputError, match="board fetch"):
        open_board(tmp_path / "b", witnesses=policy)


@pytest.mark.parametrize("scheme", ["grpc://", "folder"])
def test_the_proof_comes_by_every_way_that_boards_come(world: World, tmp_path: Path, scheme: str) -> None:
    expected = (world.shown_a.mirror / LOG_PROOF).read_bytes()
    with start_board_service(ServiceSettings(mirror=world.shown_a.mirror)) as service:
        place = f"grpc://127.0.0.1:{service.port}" if scheme == "grpc://" else str(world.shown_a.mirror)
        source = open_source(place)
        try:
            assert source.log_proof() == expected
            policy = world.net.policy(least=LEAST)
            cache = BoardCache(tmp_path / "cache")
            feed = BoardFeed(source, world.key.public, cache, witnesses=policy, patience=AT_ONCE)
            assert feed.fetch().manifest.board_digest == world.a.digest
        finally:
            source.close()
