"""Pages of boards, and the same pages after somebody changed what is in them."""

import base64
import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.page.boards import HeldBoard, held_board
from fedboard.client.page.writing import write_page
from fedboard.common.board import Board, Catalogue
from fedboard.common.boards.board_signature import PinnedKey, message_to_sign
from fedboard.common.boards.layout import LATEST, pack
from fedboard.common.boards.manifest import Link, SignedManifest
from fedboard.common.boards.witnesses import Witnesses, cosigned
from fedboard.common.privacy.events import digest
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.server.publishing.mirror import Mirror
from fedboard.server.publishing.signing import SigningKey
from tests.common.boards.boards import chain, keys, signed_mirror, write_boards

_DATA = re.compile(r'(<script type="application/json" id="data">)(.*?)(</script>)', re.DOTALL)


INSIDE = """
boardDigest betsInHundred checkedCertificate deltaOf epsilonOf erfc modelOf muFor neighbours ownList plainIsSigned
plainSha256 plainSha512 ratingSteps readBoard readRatings shortNumber titleSearch writtenRatings
"""
"""What tests ask of the page's own modules; as ``inside`` in the pages of these tests."""


def with_inside(script: str) -> str:
    """The page's script, and what of it tests ask by name."""
    return f"{script}\nglobalThis.inside = {{ {', '.join(INSIDE.split())} }};\n"


class Signed:
    """A mirror with boards 2, 3 and 4 that one key signed, and the page of it; with witnesses, 2 of 3 of them."""

    def __init__(self, folder: Path, *, seeded: bool = False, witnessed: bool = False) -> None:
        self.folder = folder
        self.private, self.public = keys(folder / "keys")
        self.key = SigningKey.read(self.private)
        self.witness_keys = [Ed25519PrivateKey.generate() for _ in range(3 if witnessed else 0)]
        raw = tuple(key.public_key().public_bytes_raw() for key in self.witness_keys)
        self.pinned = PinnedKey.read(self.public, witnesses=Witnesses(raw, 2) if witnessed else None)
        noise = {"noise": (SeededNoise(0),)} if seeded else {}
        boards = chain(3, **noise)
        self.mirror: Mirror = signed_mirror(folder, boards, key=self.key, simulation=seeded)
        self.newest = boards[-1]
        for link in self.mirror.chain():
            content = self.cosigned(link.signed.content).to_bytes()
            self.mirror.manifest(link.digest).write_bytes(content)
            (self.mirror.folder / LATEST).write_bytes(content)
        self.page = folder / "page.html"
        held = held_board(str(self.mirror.folder), key=self.pinned)
        write_page(self.page, held, key=self.pinned)

    def link(self, version: int) -> Link:
        """The manifest of a version, as it lies in the mirror."""
        return next(link for link in self.mirror.chain() if link.manifest.version == version)

    def cosigned(self, content: str, *, signer: SigningKey | None = None) -> SignedManifest:
        """Any manifest, signed by the key (or another one) and cosigned by all witnesses."""
        signature = (signer or self.key)._key.sign(message_to_sign(content.encode())).hex()
        each = tuple(cosigned(key, content.encode()) for key in self.witness_keys)
        return SignedManifest(content=content, signatures=(signature,), cosignatures=each)


def edited(page: Path, change: Callable[[dict[str, Any]], None], name: str) -> Path:
    """The page with other data in it, as whoever has the file can write it."""
    text = page.read_text(encoding="utf-8")
    data = json.loads(_DATA.search(text)[2])
    changed = copy.deepcopy(data)
    change(changed)
    assert changed != data
    written = json.dumps(changed).replace("<", "\\u003c")
    path = page.with_name(f"{name}.html")
    path.write_text(_DATA.sub(lambda found: found[1] + written + found[3], text), encoding="utf-8")
    return path


def carrying(entry: dict[str, Any], board_file: bytes) -> None:
    """Put another board file into a page's entry."""
    entry |= {"file": base64.b64encode(pack(board_file)).decode(), "size": len(board_file)}


def claiming(board: Board, epsilon: float) -> Board:
    """The board with a certificate that claims another epsilon, its digest made to fit."""
    certificate = json.loads(json.dumps(board.certificate))
    certificate["claim"]["epsilon"] = epsilon
    certificate["digest"] = digest({key: value for key, value in certificate.items() if key != "digest"})
    return board.with_certificate(certificate)


def unsigned_page(folder: Path, board: Board, *, label: str = "unsigned") -> Path:
    """The page of a board that nobody signed."""
    path = write_boards(folder, [board]) / f"board-{board.version:04d}.board"
    page = folder / "unsigned.html"
    write_page(page, HeldBoard(board=board, label=label, file=path.read_bytes()))
    return page


def titled(board: Board, title: Callable[[int], str]) -> Board:
    """A board with other titles; its certificate is for another one."""
    n_items = board.catalogue.n_items
    catalogue = Catalogue(item_ids=board.catalogue.item_ids, titles=tuple(map(title, range(n_items))))
    return replace(board, catalogue=catalogue, certificate=None, _digest=[])
