"""What publishers and mirrors show: boards, packed boards, certificates, manifests, roots."""

import json
import time
import zlib
from datetime import UTC, datetime, timedelta
from io import BytesIO

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleets.fuzz.specimens import boards, certificate
from fleets.fuzz.trials import Parser

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest, message_to_sign
from fedboard.common.boards.manifest import BoardFile, Encoding, Manifest
from fedboard.common.boards.packing import pack, unpack
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.keys.canonical_json import canonical_json
from fedboard.common.keys.roots import Root, RootError, SignedRoot, tuf_key, tuf_key_id
from fedboard.common.protection import Protection

_KEY = Ed25519PrivateKey.generate()
_DIGEST = "ab" * 32


def board_parsers() -> list[Parser]:
    """Of readers."""
    return [*_of_boards(), *_of_manifests()]


def _of_boards() -> list[Parser]:
    files = tuple(board.to_bytes() for board in boards())
    own = np.frombuffer(files[1], dtype=np.uint8)
    packed = [
        pack(own, encoding, approximates=_DIGEST).content
        for encoding in (Encoding.PACKED, Encoding.FLOAT16, Encoding.INT8)
    ]
    packed.append(
        pack(own, Encoding.PACKED, held=frozenset({"array/item_counts"}), approximates=_DIGEST).content
    )

    def board(content: bytes) -> object:
        read = Board.from_bytes(np.frombuffer(content, dtype=np.uint8))
        return read.digest, repr(read), read._repr_html_()

    def certified(content: bytes) -> object:
        read = Certificate.from_json(content)
        return read.verify(), read.verdict, repr(read), read.to_json()

    def restored(content: bytes) -> object:
        """With the size that fits, as a publisher who lies would sign it."""
        made = sum(piece.nbytes for piece in unpack(BytesIO(content), board_size=size_of(content), base=own))
        if made > size_of(content):
            raise AssertionError("more bytes than were signed")
        return made

    certificates = [certificate(_DIGEST, planned=planned).to_json().encode() for planned in (True, False)]
    return [
        Parser(
            name="reader/board", read=board, refusals=(InputError,), specimens=files, form="board", share=0.6
        ),
        Parser(
            name="reader/packed-board",
            read=restored,
            refusals=(FeedRefusedError,),
            specimens=tuple(packed),
            form="packed",
        ),
        Parser(
            name="reader/certificate",
            read=certified,
            refusals=(FedboardError,),
            specimens=tuple(certificates),
            form="json",
            share=0.2,
        ),
    ]


def size_of(content: bytes) -> int:
    """What a packed file says that it becomes; some other size where it says nothing that can be read."""
    try:
        contents = json.loads(zlib.decompressobj().decompress(content[16:], 1 << 20))
        return 8 + len(contents["header"].encode()) + sum(part["size"] for part in contents["parts"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError, zlib.error):
        return 5000


def _of_manifests() -> list[Parser]:
    file = BoardFile(
        encoding=Encoding.PACKED,
        size=12,
        sha256=_DIGEST,
        board_size=20,
        board_sha256=_DIGEST,
        board_digest=_DIGEST,
        bases=(1, 2),
    )
    manifest = Manifest(
        run="films",
        run_id="ab" * 16,
        releases=2,
        ledger_head=_DIGEST,
        previous_manifest=_DIGEST,
        version=2,
        board_digest=_DIGEST,
        previous_digest=None,
        certificate_digest=_DIGEST,
        protection=Protection.PRIVATE,
        published="2026-01-01T00:00:00Z",
        signed="2026-01-01T00:00:00Z",
        expires="2126-01-01T00:00:00Z",
        key_id="0" * 16,
        files=(file,),
    )
    pinned = PinnedKey(_KEY.public_key())
    content = manifest.to_bytes()
    signed = SignedManifest(content=content.decode(), signatures=(_KEY.sign(message_to_sign(content)).hex(),))

    def by_a_liar(content: bytes) -> object:
        text = content.decode(errors="replace")
        signature = _KEY.sign(message_to_sign(text.encode())).hex()
        found = pinned.open_newest(SignedManifest(content=text, signatures=(signature,)), clock=time.time)
        return found.place, found.file(Encoding.PACKED, 1), found.is_current()

    def on_the_way(content: bytes) -> object:
        return pinned.open(SignedManifest.from_bytes(content))

    roots = tuple(_root(version) for version in (1, 2))
    first = Root.from_bytes(roots[0])
    return [
        Parser(
            name="reader/manifest",
            read=by_a_liar,
            refusals=(FeedRefusedError,),
            specimens=(content,),
            form="json",
        ),
        Parser(
            name="reader/signed-manifest",
            read=on_the_way,
            refusals=(FeedRefusedError,),
            specimens=(signed.to_bytes(),),
            form="json",
        ),
        Parser(
            name="reader/root",
            read=_signed_root(first),
            refusals=(RootError,),
            specimens=roots[1:],
            form="json",
        ),
        Parser(
            name="reader/pinned-root",
            read=SignedRoot.from_bytes,
            refusals=(RootError,),
            specimens=roots,
            form="json",
        ),
    ]


def _root(version: int) -> bytes:
    raw = _KEY.public_key().public_bytes_raw()
    role = {"keyids": [tuf_key_id(raw)], "threshold": 1}
    signed = {
        "_type": "root",
        "spec_version": "1.0.31",
        "version": version,
        "expires": (datetime.now(UTC) + timedelta(days=300)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "keys": {tuf_key_id(raw): tuf_key(raw)},
        "roles": dict.fromkeys(("root", "snapshot", "targets", "timestamp"), role),
        "x-fedboard-roles": {"questions": role},
    }
    signature = {"keyid": tuf_key_id(raw), "sig": _KEY.sign(canonical_json(signed)).hex()}
    return json.dumps({"signed": signed, "signatures": [signature]}).encode()


def _signed_root(first: Root):  # type: ignore[no-untyped-def]  # a reader of bytes
    """The next root, signed again where it can be by the holder of the keys."""

    def read(content: bytes) -> object:
        try:
            message = canonical_json(json.loads(content)["signed"])
        except Exception:  # mutants are anything
            message = b""
        keyid = tuf_key_id(_KEY.public_key().public_bytes_raw())
        if message and content.endswith(b'"}]}') and content.count(b'"sig"') == 1:
            head = content[: content.rindex(b'"sig"')]
            content = head + f'"sig": "{_KEY.sign(message).hex()}"}}]}}'.encode()
        found = first.successor(content)
        return found.roles, found.is_current(), keyid

    return read
