"""What publishers, mirrors and witnesses show: boards packed and not, certificates, manifests, chains, roots."""

import asyncio
from collections.abc import Callable
from io import BytesIO

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.boards.witness import NotCosignedError, Witness
from fedboard.common.board import Board
from fedboard.common.boards import boards_pb2
from fedboard.common.boards.board_signature import PinnedKey, message_to_sign
from fedboard.common.boards.layout import LATEST, file_name, manifest_name, pack, root_name, unpack
from fedboard.common.boards.manifest import (
    BoardFile,
    Link,
    Manifest,
    SignedManifest,
    contradict,
    require_next,
)
from fedboard.common.boards.methods import COSIGN, FETCH
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.boards.roots import Role, Root, RootError, SignedRoot, root_document, root_text
from fedboard.common.boards.witnesses import Witnesses, cosigned
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.protection import Protection
from fedboard.server.publishing.limits import Limits
from fedboard.server.publishing.mirror import publish_into
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.service import BoardsServicer
from fedboard.server.publishing.signing import SigningKey
from fleets.fuzz_port import Target, in_pieces, pieces
from fleets.specimens import boards, certificate, folder

_KEY = Ed25519PrivateKey.generate()
_DIGEST = "ab" * 32


def board_targets() -> dict[str, Target]:
    """Of readers and witnesses, by name."""
    return {**_boards(), **_requests(), **_manifests(), **_roots()}


def _boards() -> dict[str, Target]:
    """Boards as they are, packed, and what they state."""
    files = tuple(board.to_bytes() for board in boards())

    def read(content: bytes) -> object:
        board = Board.from_bytes(np.frombuffer(content, dtype=np.uint8))
        return board.digest, repr(board), board._repr_html_()

    def restored(content: bytes) -> object:
        """With a size that fits or does not, as a publisher who lies would sign it."""
        size = int.from_bytes(content[-4:], "little") % (1 << 20)
        made = sum(map(len, unpack(BytesIO(content), board_size=size)))
        if made > size:
            raise AssertionError("more bytes than were signed")
        return made

    def certified(content: bytes) -> object:
        found = Certificate.from_json(content)
        return found.verify(), found.verdict, repr(found), found.to_json()

    stated = tuple(certificate(_DIGEST, planned=planned).to_json().encode() for planned in (True, False))
    return {
        "reader/board": Target(read, (InputError,), files, "board", 0.6),
        "reader/packed-board": Target(restored, (FeedRefusedError,), tuple(map(pack, files)), "packed"),
        "reader/certificate": Target(certified, (FedboardError,), stated, "json", 0.2),
    }


class _Refused(Exception):  # noqa: N818  # the status of a call
    """A call ends with a status."""


class _Call:
    """A call to the board service, which takes all that is sent."""

    def peer(self) -> str:
        return "ipv4:127.0.0.1:40000"

    async def write(self, message: bytes) -> None:
        self.taken = message

    async def abort(self, status: object, word: str) -> None:
        raise _Refused(word)

    async def send_initial_metadata(self, _: object) -> None:
        """Nothing waits for it."""

    def add_done_callback(self, callback: Callable[[object], None]) -> None:
        callback(None)

    def set_trailing_metadata(self, _: object) -> None:
        """Nobody reads it."""


def _requests() -> dict[str, Target]:
    """Of readers and witnesses to the board service, over boards that are signed."""
    place, mirror = folder() / "boards", Mirror(folder() / "mirror")
    place.mkdir(exist_ok=True)
    for board in boards():
        board.save(place / f"board-{board.version:04d}.board")
    publish_into(mirror, place, key=SigningKey(_KEY), run="films")
    free = Limits(requests_per_second=1e9, requests_per_second_per_address=1e9)
    service = BoardsServicer(mirror, limits=free)
    asyncio.run(service.look())
    methods = ((FETCH, service._fetch), (COSIGN, service._cosign))

    def asked(content: bytes) -> object:
        """The first byte is the method."""
        method = methods[content[0] % len(methods)] if content else methods[0]
        try:
            return asyncio.run(service._answered(*method, content[1:], _Call()))
        except _Refused as status:
            return status.args

    newest = mirror.published()[-1]
    cosignature = cosigned(_KEY, newest.signed.content.encode())
    signed = bytes.fromhex(cosignature.key), bytes.fromhex(cosignature.signature)
    fetched = (LATEST, root_name(1), manifest_name(newest.digest), file_name(newest.manifest.file.sha256))
    messages = [(0, boards_pb2.FetchRequest(name=name, offset=7)) for name in fetched]
    messages += [(1, boards_pb2.CosignRequest(manifest=newest.digest, key=signed[0], signature=signed[1]))]
    specimens = tuple(bytes([n]) + message.SerializeToString() for n, message in messages)
    return {"server/boards-request": Target(asked, (), specimens, share=0.3)}


def _manifests() -> dict[str, Target]:
    """What is signed of boards; chains of it, and cosignatures."""
    file = BoardFile(size=12, sha256=_DIGEST, board_size=20, board_sha256=_DIGEST)
    first = Manifest(
        run="films",
        run_id="0" * 32,
        releases=2,
        ledger_head=_DIGEST,
        previous_manifest=None,
        version=2,
        board_digest=_DIGEST,
        previous_digest=None,
        certificate_digest=_DIGEST,
        protection=Protection.PRIVATE,
        published="2026-01-01T00:00:00Z",
        signed="2026-01-01T00:00:00Z",
        expires="2126-01-01T00:00:00Z",
        key_id="0" * 16,
        file=file,
    )
    before = _signed(first.to_bytes().decode())
    after = msgspec.structs.replace(
        first, version=3, releases=3, previous_manifest=before.digest, previous_digest=_DIGEST
    )
    witness_keys = [Ed25519PrivateKey.generate() for _ in range(3)]
    witnesses = Witnesses(tuple(key.public_key().public_bytes_raw() for key in witness_keys), 2)
    pinned = PinnedKey(_KEY.public_key(), witnesses=witnesses)

    def by_a_liar(content: bytes) -> object:
        signed = _signed(content.decode(errors="replace"))
        cosignatures = tuple(cosigned(key, signed.content.encode()) for key in witness_keys)
        found = pinned.open(msgspec.structs.replace(signed, cosignatures=cosignatures))
        return found.place, found.statement, found.is_current()

    def on_the_way(content: bytes) -> object:
        found = SignedManifest.from_bytes(content)
        return witnesses.missing(found), pinned.open(found)

    def chained(content: bytes) -> object:
        """By an operator who lies, to whoever knows the manifest before."""
        found = Link.of(_signed(content.decode(errors="replace")))
        contradiction = contradict(first, found.manifest)
        require_next(Link.of(before), found)
        return contradiction

    def cosigned_by_witness(content: bytes) -> object:
        """Of a run that may begin, with the certificate that is named."""
        manifest, certificate = (*pieces(content), b"", b"")[:2]
        witness = Witness(witness_keys[0], folder() / "fuzzed.memory", begin=("films",))
        witness._path.unlink(missing_ok=True)
        witness._runs.clear()
        return witness.cosign(_signed(manifest.decode(errors="replace")), certificate)

    whole = msgspec.structs.replace(
        before, cosignatures=tuple(cosigned(key, before.content.encode()) for key in witness_keys)
    )
    refusals = (FeedRefusedError,)
    begun = msgspec.structs.replace(first, certificate_digest=None, releases=0, ledger_head=None)
    return {
        "reader/manifest": Target(by_a_liar, refusals, (first.to_bytes(),), "json"),
        "reader/signed-manifest": Target(on_the_way, refusals, (whole.to_bytes(),), "json"),
        "witness/chain": Target(chained, refusals, (after.to_bytes(),), "json"),
        "witness/pending": Target(
            cosigned_by_witness, (NotCosignedError,), (in_pieces(begun.to_bytes(), b""),), share=0.3
        ),
    }


def _signed(content: str) -> SignedManifest:
    text = content.encode(errors="replace")
    return SignedManifest(content=text.decode(), signatures=(_KEY.sign(message_to_sign(text)).hex(),))


def _roots() -> dict[str, Target]:
    roots = tuple(_root(version) for version in (1, 2))
    first = Root.from_bytes(roots[0])

    def next_root(content: bytes) -> object:
        """Signed again, where it can be, by the holder of the keys."""
        try:
            raw, text = _KEY.public_key().public_bytes_raw(), content.decode()
            signed = _KEY.sign(b"fedboard-root-1\0" + content)
            content = root_document(text, {raw: signed})
        except Exception:  # mutants are anything
            signed = b""
        found = first.successor(content)
        return found.roles, found.is_current(), signed

    return {
        "reader/root": Target(next_root, (RootError,), (_said(2).encode(),), "json"),
        "reader/pinned-root": Target(SignedRoot.from_bytes, (RootError,), roots, "json"),
    }


def _root(version: int) -> bytes:
    """What signs everything is one key."""
    text = _said(version)
    signature = _KEY.sign(b"fedboard-root-1\0" + text.encode())
    return root_document(text, {_KEY.public_key().public_bytes_raw(): signature})


def _said(version: int) -> str:
    role = Role((_KEY.public_key().public_bytes_raw(),), 1)
    roles = dict.fromkeys(("root", "boards", "questions"), role)
    return root_text(version=version, expires="2126-01-01T00:00:00Z", roles=roles)
