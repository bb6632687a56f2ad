"""The attacks on what a fleet shows, each against the device and against a plain reader.

An operator has every key of the fleet; so has, where it is said, the holder of the root. k of n witnesses must
cosign, of whom some lie. Each test fails where the check that it is about is taken out.
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.mirror_check import check_source
from fedboard.client.boards.seen import EVIDENCE
from fedboard.client.boards.witness import NotCosignedError, Witness
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import LATEST, root_name
from fedboard.common.boards.manifest import Link
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.roots import Role
from fedboard.common.boards.validity import DAY_SECONDS
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.messages.refusals import Refusal
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.server.operating.drafting import drafted, signed_by
from fedboard.server.publishing.mirror import publish_into
from fedboard.server.publishing.signing import SigningKey
from tests.client.boards.two_faced import AT_ONCE, TASK, Face, Network, World, certificate_of
from tests.client.certified_boards import RUN, certified_boards, with_certificate
from tests.common.boards.boards import keys, signed_by_hand

FLEETS = [(1, 1), (2, 2), (2, 3), (3, 4), (3, 3), (5, 7)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


def code_of(action: Callable[[], object]) -> FeedCode:
    with pytest.raises(FeedRefusedError) as refused:
        action()
    return refused.value.code


def failed(face: Face, key: PinnedKey) -> list[str]:
    """What a plain reader who checks everything finds wrong."""
    return [one.check for one in check_source(face.source, key, max_bytes=1 << 30) if not one.passed]


def split(world: World) -> tuple[Face, Face]:
    """Two faces with as many cosignatures as can be had: the honest are shared out, those who lie give both."""
    honest, lying, least = world.net.honest, world.net.lying, world.least
    first = honest[: max(least - len(lying), 0)]
    rest = [place for place in honest if place not in first]
    a, b = world.before.other("a"), world.before.other("b")
    a.show([world.a], asked=(*first, *lying))
    b.show([world.b], asked=(*rest, *lying))
    b.net.ask(b.mirror, first)  # who have signed the other one
    return a, b


def test_without_witnesses_nobody_can_tell(world: World, tmp_path: Path) -> None:
    """Signatures, chain and certificates of both faces are as they should be."""
    for face in split(world):
        face.show_anyway()
        assert failed(face, world.key.public) == []
        fetched = world.feed(face, tmp_path / face.folder.name, witnesses=False).fetch()
        assert fetched.manifest.version == 2


@pytest.mark.parametrize(("least", "n"), FLEETS)
def test_a_split_view_by_the_operator_and_as_many_witnesses_as_are_borne(
    least: int, n: int, tmp_path: Path
) -> None:
    """2 k - n - 1 may lie: one of the two faces is short of cosignatures, for whoever has not seen the other."""
    bears = 2 * least - n - 1
    world = World(tmp_path / "world", n=n, least=least, liars=bears)
    assert world.net.witnesses.bears == bears

    a, b = split(world)

    assert a.cosigners() >= least > b.cosigners()
    assert [link.manifest.version for link in b.mirror.pending()] == [
        2
    ]  # nor does the server's own code show it
    b.show_anyway()
    taken = world.feed(a, tmp_path / "a").fetch()
    assert taken.manifest.board_digest == world.a.digest
    assert failed(a, world.pinned()) == []
    assert code_of(world.feed(b, tmp_path / "b").fetch) is FeedCode.NOT_WITNESSED
    assert not list((tmp_path / "b").glob("*.board"))
    assert "cosignatures" in failed(b, world.pinned())


@pytest.mark.parametrize(("least", "n"), FLEETS)
def test_one_more_liar_is_not_borne(least: int, n: int, tmp_path: Path) -> None:
    """The bound is sharp: what is said to be borne is all that is."""
    world = World(tmp_path / "world", n=n, least=least, liars=2 * least - n)

    for face in split(world):
        assert face.cosigners() >= least
        assert world.feed(face, tmp_path / face.folder.name).fetch().manifest.version == 2


@pytest.mark.parametrize(("least", "n"), [(1, 2), (2, 4), (0, 1), (4, 3)])
def test_a_policy_with_which_two_chains_could_be_cosigned_though_nobody_lies_is_none(
    least: int, n: int
) -> None:
    with pytest.raises(InputError, match=r"cosignatures must be in \["):
        Witnesses(tuple(bytes([place]) * 32 for place in range(n)), least)


def test_whoever_has_seen_both_keeps_both_and_takes_nothing_more(tmp_path: Path) -> None:
    """Where more lie than are borne: the reader who meets the second face has what shows it to anybody."""
    world = World(tmp_path / "world", n=3, least=2, liars=1)
    a, b = split(world)
    reader = tmp_path / "reader"
    world.feed(a, reader).fetch()

    assert code_of(world.feed(b, reader).fetch) is FeedCode.SPLIT_VIEW

    one, other = (SignedManifest.from_bytes((reader / name).read_bytes()) for name in EVIDENCE)
    assert {one, other} == {face.mirror.chain()[-1].signed for face in (a, b)}
    for face in (a, b):  # from now on
        assert code_of(world.feed(face, reader).fetch) is FeedCode.SPLIT_VIEW
    device = world.device(a, tmp_path)
    shutil.copytree(reader, tmp_path / "boards", dirs_exist_ok=True)
    assert device.code(world.a) is Refusal.NOT_WITNESSED


def test_a_reader_without_witnesses_keeps_both_too(world: World, tmp_path: Path) -> None:
    a, b = split(world)
    b.show_anyway()
    world.feed(a, tmp_path / "reader", witnesses=False).fetch()

    assert code_of(world.feed(b, tmp_path / "reader", witnesses=False).fetch) is FeedCode.SPLIT_VIEW
    assert all((tmp_path / "reader" / name).exists() for name in EVIDENCE)
    assert code_of(world.feed(a, tmp_path / "reader", witnesses=False).fetch) is FeedCode.SPLIT_VIEW


def test_a_device_answers_about_the_board_that_all_see_and_about_no_other(
    world: World, tmp_path: Path
) -> None:
    a, b = split(world)
    b.show_anyway()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    phone_a, phone_b = world.device(a, tmp_path / "a"), world.device(b, tmp_path / "b")
    run = f"{RUN}-{world.run_id}"

    assert phone_a.code(world.a, run=run) is None
    assert phone_b.code(world.b, run=run) is Refusal.NOT_WITNESSED
    assert phone_b.booked() == []
    assert phone_a.code(world.b, run=run) is not None


def test_a_board_that_was_fetched_without_witnesses_is_not_answered_either(
    world: World, tmp_path: Path
) -> None:
    """It lies in the cache, signed; nobody says that others have it."""
    _, b = split(world)
    b.show_anyway()
    world.feed(b, tmp_path / "boards", witnesses=False).fetch()
    device = world.device(b, tmp_path, published_only=False)
    device.cache = BoardCache(tmp_path / "boards")

    assert device.cache.holds(world.b.digest)
    assert device.code(world.b) is Refusal.NOT_WITNESSED


def test_rollback(world: World, tmp_path: Path) -> None:
    """An older end of the chain, which was cosigned, is not the newest for whoever saw a later one."""
    a, _ = split(world)
    world.feed(a, tmp_path / "reader").fetch()

    assert code_of(world.feed(world.before, tmp_path / "reader").fetch) is FeedCode.ROLLBACK
    witness = world.net.all[0]
    assert isinstance(witness, Witness)
    last = world.before.mirror.chain()[-1]
    assert witness.cosign(last.signed, certificate_of(world.before.mirror, last)) is None  # nor to a witness
    assert witness.known[RUN].manifest.version == 2


def test_freeze(world: World, tmp_path: Path) -> None:
    """Nothing newer comes: what is shown expires."""
    later = world.feed(world.before, tmp_path / "reader", clock=lambda: _now() + 31 * DAY_SECONDS)

    assert code_of(later.fetch) is FeedCode.OUT_OF_DATE
    assert "version 1" in failed_at(world.before, world.pinned(), days=31)


def test_two_runs_about_the_same_people(world: World, tmp_path: Path) -> None:
    """Another ledger under the same name has a budget of its own; a name has one ledger."""
    again = certified_boards(tmp_path, TASK)
    second = Face(tmp_path / "second", world.net, world.key)
    second.folder.mkdir()
    shutil.copy(tmp_path / f"{RUN}.sqlite", second.folder / "ledger.sqlite")
    refusals = second.show(again, asked=(*world.net.honest, *world.net.lying))

    assert len(refusals) == len(world.net.honest)
    assert all("contradicts" in one for one in refusals)
    second.show_anyway()
    assert code_of(world.feed(second, tmp_path / "new").fetch) is FeedCode.NOT_WITNESSED
    world.feed(world.before, tmp_path / "plain", witnesses=False).fetch()
    assert code_of(world.feed(second, tmp_path / "plain", witnesses=False).fetch) is FeedCode.SPLIT_VIEW
    (tmp_path / "a").mkdir()
    phone = world.device(world.before, tmp_path / "a")
    with Ledger.open(second.folder / "ledger.sqlite", read_only=True) as ledger:
        other = f"{RUN}-{ledger.id}"
    assert phone.code(world.common[-1], run=other) is Refusal.NOT_WITNESSED
    assert phone.code(world.common[-1], run=f"{RUN}-{world.run_id}") is None


def test_the_server_does_not_sign_the_boards_of_another_ledger_under_a_name(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "boards").mkdir()
    certified_boards(tmp_path, TASK)
    shutil.copy(tmp_path / f"{RUN}.sqlite", tmp_path / "boards" / "ledger.sqlite")

    with pytest.raises(PrivacyError, match="a name has one ledger"):
        publish_into(world.before.mirror, tmp_path / "boards", key=world.key, run=RUN)


def test_a_second_board_of_a_version(world: World, tmp_path: Path) -> None:
    """After the first was published, to the same people: no witness and no reader takes it."""
    _, b = split(world)
    witness = world.net.all[0]
    assert isinstance(witness, Witness)
    last = b.mirror.chain()[-1]

    with pytest.raises(NotCosignedError, match="contradicts"):
        witness.cosign(last.signed, certificate_of(b.mirror, last))

    kept = sorted((world.folder / "net").glob("0.memory.contradiction-*.json"))
    assert [SignedManifest.from_bytes(path.read_bytes()) for path in kept] == [
        witness.known[RUN].signed,
        last.signed,
    ]
    assert witness.known[RUN].manifest.board_digest == world.a.digest


def test_a_ledger_that_forks(world: World, tmp_path: Path) -> None:
    """Put back to before the last round, and spent a second time: the certificate alone looks as it should."""
    a = world.before.other("a")
    a.show([world.a], asked=(*world.net.honest, *world.net.lying))
    forked = forked_board(world, tmp_path)
    c = a.other("c")
    refusals = c.show([forked], asked=(*world.net.honest, *world.net.lying))

    assert len(refusals) == len(world.net.honest)
    assert all("rolled back or rewritten" in one for one in refusals)
    c.show_anyway()
    assert code_of(world.feed(c, tmp_path / "new").fetch) is FeedCode.NOT_WITNESSED
    reader = tmp_path / "plain"
    world.feed(a, reader, witnesses=False).fetch()
    assert code_of(world.feed(c, reader, witnesses=False).fetch) is FeedCode.LEDGER_CHANGED
    assert any("ledger" in one for one in failed(c, world.key.public))


def test_a_manifest_that_states_another_ledger_than_its_certificate(world: World, tmp_path: Path) -> None:
    """Signed by hand, past the signer's own check."""
    a, _ = split(world)
    last = a.mirror.chain()[-1]
    for change in ({"releases": last.manifest.releases + 1}, {"ledger_head": "0" * 64}):
        face = a.other(f"changed-{next(iter(change))}")
        lie(face, msgspec.structs.replace(last.manifest, **change))

        feed = world.feed(face, tmp_path / face.folder.name, witnesses=False)
        assert code_of(feed.fetch) is FeedCode.LEDGER_CHANGED
        link = Link.of(SignedManifest.from_bytes((face.mirror.folder / LATEST).read_bytes()))
        fresh = Witness(Ed25519PrivateKey.generate(), tmp_path / "memory", begin=[RUN])
        with pytest.raises(NotCosignedError, match="not the one that its manifest states"):
            fresh.cosign(link.signed, certificate_of(a.mirror, last))


def test_a_stolen_online_key(world: World, tmp_path: Path) -> None:
    """The thief has the key that signs boards, and no server: readers with witnesses take nothing of theirs; the
    others until the root leaves the key out, and then they take the true ones again.
    """
    holder, old = Ed25519PrivateKey.generate(), world.key
    roots = a_root(tmp_path / "roots", holder, [old])
    true = Face(tmp_path / "true", world.net, old, roots=roots)
    true.folder.mkdir()
    shutil.copy(world.folder / f"{RUN}.sqlite", true.folder / "ledger.sqlite")
    net = Network(tmp_path / "net", n=3, least=2)
    true.net = net
    true.show(world.common, asked=(0, 1, 2))
    stolen = true.other("stolen")
    stolen.show([world.b])
    stolen.show_anyway()
    pinned = PinnedKey.read(roots / "1.root.json", witnesses=net.witnesses)
    plain = PinnedKey.read(roots / "1.root.json")

    assert code_of(reader(stolen, pinned, tmp_path / "one").fetch) is FeedCode.NOT_WITNESSED
    assert reader(stolen, plain, tmp_path / "two").fetch().manifest.board_digest == world.b.digest

    new = SigningKey.read(keys(tmp_path / "new")[0])
    next_root(roots, holder, [new])
    renewed = replace(true, key=new)
    renewed.show([world.a], asked=(0, 1, 2))
    for key, name in ((pinned, "one"), (plain, "two")):
        assert reader(renewed, key, tmp_path / name).fetch().manifest.board_digest == world.a.digest
        assert not BoardCache(tmp_path / name).holds(world.b.digest)
        stolen_later = replace(stolen, roots=roots)
        shutil.copytree(renewed.mirror.roots.folder, stolen_later.mirror.folder / "roots", dirs_exist_ok=True)
        assert code_of(reader(stolen_later, key, tmp_path / name).fetch) is FeedCode.BAD_SIGNATURE


def test_a_split_view_by_the_holder_of_the_root(world: World, tmp_path: Path) -> None:
    """A root that names other keys, for some people alone: witnesses are the same for all, and sign one chain."""
    holder = Ed25519PrivateKey.generate()
    roots = a_root(tmp_path / "roots", holder, [world.key])
    net = Network(tmp_path / "net", n=4, least=3, liars=1)
    a = Face(tmp_path / "a", net, world.key, roots=roots)
    a.folder.mkdir()
    shutil.copy(world.folder / f"{RUN}.sqlite", a.folder / "ledger.sqlite")
    a.show(world.common, asked=range(4))
    b = a.other("b")
    a.show([world.a], asked=(0, 1, 3))
    b.roots = tmp_path / "other-roots"
    shutil.copytree(roots, b.roots)
    b.key = SigningKey.read(keys(tmp_path / "new")[0])
    next_root(b.roots, holder, [b.key])

    b.show([world.b], asked=range(4))

    b.mirror.roots.take(b.mirror.next_roots.chain())
    b.show_anyway()
    pinned = PinnedKey.read(roots / "1.root.json", witnesses=net.witnesses)
    assert reader(a, pinned, tmp_path / "one").fetch().manifest.board_digest == world.a.digest
    assert code_of(reader(b, pinned, tmp_path / "two").fetch) is FeedCode.NOT_WITNESSED
    assert b.cosigners() == 2  # who had seen neither, and who lies


@pytest.mark.parametrize("signers", [0, 2, 3])
def test_a_root_that_changes_witnesses_counts_only_if_enough_of_the_pinned_ones_signed_it(
    signers: int, world: World, tmp_path: Path
) -> None:
    holder = Ed25519PrivateKey.generate()
    roots = a_root(tmp_path / "roots", holder, [world.key])
    old, new = Network(tmp_path / "old", n=4, least=3), Network(tmp_path / "new", n=3, least=2)
    next_root(roots, holder, [world.key], witnesses=new.witnesses, also=old.keys[:signers])
    face = Face(tmp_path / "face", new, world.key, roots=roots)
    face.folder.mkdir()
    face.show(world.common, asked=(0, 1))
    pinned = PinnedKey.read(roots / "1.root.json", witnesses=old.witnesses)

    feed = reader(face, pinned, tmp_path / "reader")

    if signers < 3:
        assert code_of(feed.fetch) is FeedCode.BAD_ROOT
        assert not (tmp_path / "reader" / root_name(2)).exists()
    else:
        assert feed.fetch().manifest.version == 1
        assert reader(face, pinned, tmp_path / "reader").fetch().received == 0  # and it is remembered
    plain = PinnedKey.read(roots / "1.root.json")
    assert reader(face, plain, tmp_path / "plain").fetch().manifest.version == 1


def test_a_root_that_names_witnesses_of_whom_too_few_must_sign_is_none(world: World, tmp_path: Path) -> None:
    holder = Ed25519PrivateKey.generate()
    roots = a_root(tmp_path / "roots", holder, [world.key])
    old = Network(tmp_path / "old", n=3, least=2)
    few = Role(tuple(bytes(old.witnesses.keys[place]) for place in (0, 1)), 1)
    next_root(roots, holder, [world.key], witnesses=few, also=old.keys)
    face = Face(tmp_path / "face", old, world.key, roots=roots)
    face.folder.mkdir()
    face.show(world.common, asked=(0, 1, 2))
    pinned = PinnedKey.read(roots / "1.root.json", witnesses=old.witnesses)

    assert code_of(reader(face, pinned, tmp_path / "reader").fetch) is FeedCode.BAD_ROOT


def test_a_chain_with_a_manifest_taken_out_or_put_in(world: World, tmp_path: Path) -> None:
    """The end is signed and cosigned; what it names before it must be there, whole."""
    a, _ = split(world)
    first, second, last = a.mirror.chain()
    world.feed(world.before, tmp_path / "reader").fetch()
    world.feed(world.before, tmp_path / "gone").fetch(0)
    a.mirror.manifest(second.digest).unlink()

    assert world.feed(a, tmp_path / "reader").fetch().manifest.version == 2  # it has the one before
    assert code_of(lambda: world.feed(a, tmp_path / "new").fetch(0)) is FeedCode.BROKEN_CHAIN
    a.mirror.manifest(second.digest).write_bytes(first.signed.to_bytes())
    assert code_of(lambda: world.feed(a, tmp_path / "new").fetch(0)) is FeedCode.WRONG_DIGEST
    assert "chain of manifests" in failed(a, world.pinned())
    assert last.manifest.previous_manifest == second.digest


# What operators and thieves make by hand.


def _now() -> float:
    import time

    return time.time()


def failed_at(face: Face, key: PinnedKey, *, days: float) -> list[str]:
    found = check_source(face.source, key, max_bytes=1 << 30, clock=lambda: _now() + days * DAY_SECONDS)
    return [one.check for one in found if not one.passed]


def reader(face: Face, key: PinnedKey, cache: Path) -> BoardFeed:
    return BoardFeed(face.source, key, BoardCache(cache), patience=AT_ONCE)


def lie(face: Face, manifest) -> None:  # type: ignore[no-untyped-def]
    """Sign anything in the place of the end of the chain."""
    signed = signed_by_hand(manifest.to_bytes(), key=face.key)
    face.mirror.manifest(face.mirror.chain()[-1].digest).unlink()
    face.mirror.manifest(signed.digest).write_bytes(signed.to_bytes())
    (face.mirror.folder / LATEST).write_bytes(signed.to_bytes())


def forked_board(world: World, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Version 3, paid for by a ledger that begins again, with as many releases and more."""
    events = (world.a.certificate or {})["releases"]
    budget = Budget(epsilon=100.0, delta=1e-5, adjacency=TASK.settings.shared.adjacency)
    with Ledger.create(tmp_path / "forked.sqlite", budget, run=RUN) as ledger:
        renamed = [{**event, "name": f"other {event['name']}"} for event in events]
        ledger.book_all([*renamed, {**renamed[-1], "name": "more"}])
        return with_certificate(world.a.successor(**world.a.arrays), ledger)


def a_root(folder: Path, holder: Ed25519PrivateKey, boards: list[SigningKey]) -> Path:
    folder.mkdir()
    (folder / "1.root.json").write_bytes(_root(holder, boards, version=1))
    return folder


def next_root(
    folder: Path,
    holder: Ed25519PrivateKey,
    boards: list[SigningKey],
    *,
    witnesses: Role | None = None,
    also: list[Ed25519PrivateKey] | None = None,
) -> None:
    content = _root(holder, boards, version=2, witnesses=witnesses, also=also or [])
    (folder / "2.root.json").write_bytes(content)


def _root(
    holder: Ed25519PrivateKey,
    boards: list[SigningKey],
    *,
    version: int,
    witnesses: Role | None = None,
    also: list[Ed25519PrivateKey] | None = None,
) -> bytes:
    roles = {
        "root": Role((holder.public_key().public_bytes_raw(),), 1),
        "boards": Role(tuple(key.public.raw for key in boards), 1),
        "witnesses": witnesses,
    }
    draft = drafted(roles, version=version, days=100.0)
    return signed_by(draft, [holder, *(also or [])], before=None)
