"""A witness: its memory, what it refuses, and how it reaches a server; and a server that waits for it."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.boards import witness as module
from fedboard.client.boards.witness import NotCosignedError, Server, Witness
from fedboard.common.boards.board_signature import Cosignature, PinnedKey
from fedboard.common.boards.boards_pb2 import CosignReply, CosignRequest
from fedboard.common.boards.methods import COSIGN, method
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.boards.witnesses import Witnesses, cosigned, has_cosigned
from fedboard.common.errors import InputError, PrivacyError
from fedboard.server.publishing.mirror import Signer, publish_into, renew_into
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.signing import SigningKey
from tests.client.boards.two_faced import certificate_of
from tests.common.boards.boards import RUN, chain, keys, write_boards
from tests.server.publishing.running import RunningBoards, Signing, serve_boards

SECONDS = 20.0


class Place:
    """A run whose boards wait for two of three witnesses, and a server of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.boards = folder, chain(3)
        self.private, self.public = keys(folder / "keys")
        self.witness_keys = [Ed25519PrivateKey.generate() for _ in range(3)]
        self.witnesses = Witnesses(tuple(key.public_key().public_bytes_raw() for key in self.witness_keys), 2)
        self.mirror = Mirror(folder / "mirror")

    def sign(self, *, until: int = 3) -> list[int]:
        written = write_boards(self.folder / "boards", self.boards[:until])
        key = SigningKey.read(self.private)
        return publish_into(self.mirror, written, key=key, run=RUN, witnesses=self.witnesses)

    def serve(self) -> RunningBoards:
        written = write_boards(self.folder / "boards", self.boards[:1])
        signing = Signing(boards=written, key=self.private, run=RUN, witnesses=self.witnesses)
        return serve_boards(self.mirror.folder, signing=signing, poll_seconds=0.05)

    def witness(self, number: int, **more: object) -> Witness:
        memory = self.folder / f"{number}.memory"
        return Witness(self.witness_keys[number], memory, **({"begin": [RUN]} | more))  # type: ignore[arg-type]

    def offer(self, witness: Witness) -> list[Cosignature | None]:
        """All of the chain, as a server streams it."""
        return [
            witness.cosign(link.signed, certificate_of(self.mirror, link)) for link in self.mirror.chain()
        ]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def served(place: Place) -> Iterator[RunningBoards]:
    with place.serve() as running:
        yield running


def attended(running: RunningBoards, *witnesses: Witness, seconds: float = 1.0) -> list[int]:
    """The versions that these cosigned, within a time."""
    found = []
    for one in witnesses:
        with closing(Server(f"127.0.0.1:{running.port}", tls=False)) as server:
            found += [link.manifest.version for link in server.attend(one, seconds=seconds)]
    return found


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_board_is_shown_once_enough_have_cosigned_it(place: Place, served: RunningBoards) -> None:
    assert place.mirror.published() == []
    assert "version 2 of the board, signed, cosigned by 0 of 2" in str(place.mirror.waiting())

    assert attended(served, place.witness(0)) == [2]
    assert place.mirror.published() == []
    assert place.witnesses.keys[0].hex()[:16] not in str(place.mirror.waiting())
    assert place.witnesses.keys[1].hex()[:16] in str(place.mirror.waiting())
    assert attended(served, place.witness(1)) == [2]

    until(lambda: served.counters.latest_version == 2)
    assert place.mirror.waiting() is None
    write_boards(place.folder / "boards", place.boards)  # a round that goes on waits for nobody
    until(lambda: place.mirror.versions() == [2, 3, 4])
    assert [link.manifest.version for link in place.mirror.pending()] == [3, 4]
    assert attended(served, place.witness(2), place.witness(0)) == [
        2,
        3,
        4,
        3,
        4,
    ]  # one that was away catches up
    until(lambda: served.counters.latest_version == 4)
    newest = place.mirror.published()[-1].signed
    PinnedKey.read(place.public, witnesses=place.witnesses).open_newest(newest, clock=time.time)


def test_a_renewal_is_cosigned_too(place: Place) -> None:
    place.sign()
    for number in (0, 1):
        _hand_in(place, number)
    assert place.mirror.published()[-1].manifest.renewal == 0

    signer = Signer(key=SigningKey.read(place.private), run=RUN)
    renew_into(place.mirror, signer)

    assert place.mirror.published()[-1].manifest.renewal == 0
    for number in (0, 1):
        _hand_in(place, number)
    assert place.mirror.published()[-1].manifest.renewal == 1


def _hand_in(place: Place, number: int) -> None:
    for link, one in zip(place.mirror.chain(), place.offer(place.witness(number)), strict=True):
        if one is not None:
            assert place.mirror.cosign(link.digest, one)


def test_a_witness_without_a_memory_signs_nothing_until_it_is_told_to_begin(place: Place) -> None:
    place.sign()
    new = place.witness(0, begin=[])
    with pytest.raises(NotCosignedError, match="remembers nothing of the run summer") as told:
        place.offer(new)
    assert "was lost" not in str(told.value)
    _hand_in(place, 0)
    assert place.offer(place.witness(0, begin=[]))[-1] is not None  # it is remembered

    (place.folder / "0.memory").unlink()

    with pytest.raises(NotCosignedError, match="has cosigned it before: its memory was lost"):
        place.offer(place.witness(0, begin=[]))
    assert not (place.folder / "0.memory").exists()
    assert place.offer(place.witness(0))[-1] is not None


def test_what_is_cosigned_is_on_disk_before_anybody_has_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.sign()
    one = place.witness(0)

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_atomically", full)
    with pytest.raises(OSError, match="No space"):
        place.offer(one)
    assert one.known == {}
    monkeypatch.undo()
    place.offer(one)
    assert place.witness(0, begin=[]).known[RUN].manifest.version == 4


def test_a_cosignature_that_never_arrived_is_handed_in_again(place: Place, served: RunningBoards) -> None:
    one = place.witness(0)
    link = place.mirror.chain()[0]
    one.cosign(link.signed, certificate_of(place.mirror, link))  # and then its machine stopped

    assert attended(served, place.witness(0, begin=[])) == [2]
    assert len(place.mirror.chain()[0].signed.cosignatures) == 1
    assert attended(served, place.witness(0, begin=[])) == []


def test_a_memory_belongs_to_one_key_and_one_process(place: Place) -> None:
    place.sign()
    place.offer(place.witness(0))
    with pytest.raises(PrivacyError, match="a memory of its own"):
        Witness(place.witness_keys[1], place.folder / "0.memory")
    with (
        place.witness(0).alone(),
        pytest.raises(InputError, match="another witness"),
        place.witness(0).alone(),
    ):
        pass
    memory = place.folder / "0.memory"
    memory.write_bytes(memory.read_bytes()[:-10])
    with pytest.raises(PrivacyError, match="no whole memory"):
        place.witness(0)


@pytest.mark.parametrize("certificate", [b"", b"{}", b"\xff", b"[" * 100_000])
def test_a_manifest_without_its_certificate_is_not_cosigned(place: Place, certificate: bytes) -> None:
    place.sign()

    with pytest.raises(NotCosignedError, match="came without its certificate"):
        place.witness(0).cosign(place.mirror.chain()[0].signed, certificate)


def test_only_those_who_are_waited_for_can_cosign(place: Place, served: RunningBoards) -> None:
    (link,) = place.mirror.chain()
    content, stranger = link.signed.content.encode(), Ed25519PrivateKey.generate()
    right = cosigned(place.witness_keys[0], content)
    wrong = [
        (link.digest, cosigned(stranger, content)),
        (link.digest, cosigned(place.witness_keys[0], content + b" ")),
        (link.digest, Cosignature(key=right.key, signature="")),
        ("0" * 64, right),
        ("../latest", right),
    ]
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        call = channel.unary_unary(method(COSIGN), CosignRequest.SerializeToString, CosignReply.FromString)
        for digest, one in wrong:
            signed = bytes.fromhex(one.key), bytes.fromhex(one.signature)
            with pytest.raises(grpc.RpcError) as refused:
                call(CosignRequest(manifest=digest, key=signed[0], signature=signed[1]), timeout=SECONDS)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert place.mirror.chain()[0].signed.cosignatures == ()


def test_a_cosignature_is_of_one_format_and_one_manifest() -> None:
    key = Ed25519PrivateKey.generate()
    one = cosigned(key, b"content")

    assert has_cosigned(one, b"content")
    assert not has_cosigned(one, b"another")
    for broken in (
        {"key": "zz"},
        {"signature": "zz"},
        {"key": one.key[2:]},
        {"signature": one.signature[2:]},
    ):
        assert not has_cosigned(
            Cosignature(**({"key": one.key, "signature": one.signature} | broken)), b"content"
        )
    bare = Cosignature(key=one.key, signature=key.sign(b"content").hex())
    assert not has_cosigned(bare, b"content")


def test_a_server_that_is_away_is_said_to_be(place: Place) -> None:
    with (
        closing(Server("127.0.0.1:1", tls=False)) as server,
        pytest.raises(FeedRefusedError, match="unreachable"),
    ):
        list(server.attend(place.witness(0), seconds=SECONDS))


def test_whoever_is_told_to_stop_stops_at_once(place: Place, served: RunningBoards) -> None:
    begun = time.monotonic()
    with closing(Server(f"127.0.0.1:{served.port}", tls=False)) as server:
        found = list(
            server.attend(place.witness(0), seconds=60.0, told=lambda: time.monotonic() > begun + 0.5)
        )

    assert len(found) == 1
    assert time.monotonic() < begun + 30.0
