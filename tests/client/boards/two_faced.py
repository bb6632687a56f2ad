"""An operator with two faces, who has every key of the fleet, and witnesses of whom some are in their league."""

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.fetching_cache import FetchingCache
from fedboard.client.boards.seen import CosignedBoards
from fedboard.client.boards.sources import FolderSource, Patience
from fedboard.client.boards.witness import NotCosignedError, Witness
from fedboard.client.participation.policy import Policy
from fedboard.common.board import Board
from fedboard.common.boards.manifest import Link
from fedboard.common.boards.witnesses import Witnesses, cosigned
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.publishing.mirror import publish_into
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.signing import SigningKey
from tests.client.certified_boards import RUN, Device, certified_boards, with_certificate
from tests.common.algorithms.conftest import a_task
from tests.common.boards.boards import keys, write_boards

TASK = a_task(epsilon=5.0)
AT_ONCE = Patience(attempts=1, first_seconds=0.0, poll_seconds=0.0)


@dataclass(frozen=True)
class Liar:
    """A witness that cosigns whatever it is asked to."""

    key: Ed25519PrivateKey


class Network:
    """n witnesses, of whom the last lie."""

    def __init__(
        self, folder: Path, *, n: int, least: int, liars: int = 0, begin: Collection[str] = (RUN,)
    ) -> None:
        """Begin all memories."""
        self.keys = [Ed25519PrivateKey.generate() for _ in range(n)]
        public = tuple(key.public_key().public_bytes_raw() for key in self.keys)
        self.witnesses = Witnesses(public, least)
        folder.mkdir(parents=True, exist_ok=True)
        self.all: list[Witness | Liar] = [
            Witness(key, folder / f"{place}.memory", begin=begin) if place < n - liars else Liar(key)
            for place, key in enumerate(self.keys)
        ]

    @property
    def honest(self) -> list[int]:
        return [place for place, one in enumerate(self.all) if isinstance(one, Witness)]

    @property
    def lying(self) -> list[int]:
        return [place for place, one in enumerate(self.all) if isinstance(one, Liar)]

    def ask(self, mirror: Mirror, asked: Sequence[int]) -> list[str]:
        """Let these cosign what wants it, as ``Pending`` and ``Cosign`` do; why some have not."""
        refusals = []
        for place in asked:
            for link in mirror.chain():
                try:
                    one = self._cosignature(place, link, mirror)
                except NotCosignedError as error:
                    refusals.append(str(error))
                    break
                if one is not None:
                    assert mirror.cosign(link.digest, one)
        return refusals

    def _cosignature(self, place: int, link: Link, mirror: Mirror):  # type: ignore[no-untyped-def]
        one = self.all[place]
        if isinstance(one, Liar):
            return cosigned(one.key, link.signed.content.encode())
        return one.cosign(link.signed, certificate_of(mirror, link))


def certificate_of(mirror: Mirror, link: Link) -> bytes:
    certificate = mirror.board(link).certificate
    return b"" if certificate is None else msgspec.json.encode(certificate)


@dataclass
class Face:
    """What some people are shown: boards, and a mirror."""

    folder: Path
    net: Network
    key: SigningKey
    run: str = RUN
    roots: Path | None = None

    @property
    def mirror(self) -> Mirror:
        return Mirror(self.folder / "mirror")

    @property
    def source(self) -> FolderSource:
        return FolderSource(self.mirror.folder)

    def show(self, boards: Sequence[Board], *, asked: Sequence[int] = (), **more: object) -> list[str]:
        """Publish boards, and ask these witnesses to cosign; by the server's own code."""
        written = write_boards(self.folder / "boards", boards)
        publish_into(
            self.mirror,
            written,
            key=self.key,
            run=self.run,
            roots=self.roots,
            witnesses=self.net.witnesses,
            **more,  # type: ignore[arg-type]
        )
        return self.net.ask(self.mirror, asked)

    def other(self, name: str) -> "Face":
        """The same up to here, for other people."""
        shutil.copytree(self.folder, self.folder.with_name(name))
        return Face(self.folder.with_name(name), self.net, self.key, self.run, self.roots)

    def show_anyway(self) -> None:
        """Point readers at the end of the chain, whoever has cosigned it."""
        last = self.mirror.chain()[-1]
        (self.mirror.folder / "latest.json").write_bytes(last.signed.to_bytes())

    def cosigners(self) -> int:
        """How many have cosigned the end of the chain."""
        return len(self.net.witnesses.cosigners(self.mirror.chain()[-1].signed))


class World:
    """One operator, n witnesses of whom the last lie, and two boards of version 2 that both hold."""

    def __init__(self, folder: Path, *, n: int = 4, least: int = 3, liars: int = 1) -> None:
        """Both faces have shown the same up to version 1."""
        self.folder, self.least = folder, least
        folder.mkdir(parents=True, exist_ok=True)
        self.net = Network(folder / "net", n=n, least=least, liars=liars)
        self.private, self.public = keys(folder / "keys")
        self.key = SigningKey.read(self.private)
        *self.common, self.a = certified_boards(folder, TASK)
        factors = {"item_factors": self.a.arrays["item_factors"] * 1.5}
        with Ledger.open(folder / f"{RUN}.sqlite", read_only=True) as ledger:
            self.run_id = ledger.id
            self.b = with_certificate(self.common[-1].successor(**{**self.a.arrays, **factors}), ledger)
        self.before = Face(folder / "before", self.net, self.key)
        self.before.folder.mkdir()
        (self.before.folder / "ledger.sqlite").write_bytes((folder / f"{RUN}.sqlite").read_bytes())
        self.before.show(self.common, asked=range(n))

    def pinned(self):  # type: ignore[no-untyped-def]
        """What an honest reader has pinned: the key, and the witnesses."""
        from fedboard.common.boards.board_signature import PinnedKey

        return PinnedKey.read(self.public, witnesses=self.net.witnesses)

    def feed(self, face: Face, cache: Path, *, witnesses: bool = True, **more: object) -> BoardFeed:
        """A reader of this face."""
        key = self.pinned() if witnesses else self.key.public
        return BoardFeed(face.source, key, BoardCache(cache), patience=AT_ONCE, **more)  # type: ignore[arg-type]

    def device(self, face: Face, folder: Path, *, published_only: bool = True) -> Device:
        """A phone whose owner relies on the witnesses."""
        policy = Policy(epsilon=20.0, delta=1e-5, smallest_catalogue=5, published_only=published_only)
        cache = FetchingCache(
            folder / "boards",
            max_bytes=1 << 30,
            source=str(face.mirror.folder),
            public_key=self.public,
            wait_seconds=0.0,
            witnesses=self.net.witnesses,
        )
        return Device(
            folder, policy, cache=cache, cosigned=CosignedBoards(self.net.witnesses, folder / "boards")
        )
