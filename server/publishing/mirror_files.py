"""A mirror's folder on the publisher's disk: the chain of manifests, and how far it is published."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.layout import (
    FILES,
    LATEST,
    MANIFESTS,
    ROOTS,
    WITNESSES,
    file_name,
    manifest_name,
    unpack,
)
from fedboard.common.boards.manifest import Cosignature, Link, require_next
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.boards.roots import RootFolder
from fedboard.common.boards.witnesses import Witnesses, has_cosigned
from fedboard.common.errors import InputError
from fedboard.common.files import held_alone, stamp_of, write_atomically

_NEXT_ROOTS = "roots.next"
_LOCK = "mirror.lock"
_LOCK_SECONDS = 60.0


class _Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``witnesses.json``."""

    witnesses: list[str]
    cosignatures: int


class Mirror:
    """A mirror's folder. Several processes may read it; whoever writes holds ``writing``."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which may be missing or empty."""
        self.folder = folder
        self._links: dict[str, tuple[object, Link]] = {}

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one who writes, while the block runs.

        Raises:
            InputError: another process writes for a minute.
        """
        for name in (FILES, MANIFESTS):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        refusal = f"{self.folder}: another process writes this mirror; wait for it"
        with held_alone(self.folder / _LOCK, refusal=refusal, seconds=_LOCK_SECONDS):
            yield

    def chain(self) -> list[Link]:
        """All manifests, oldest first, published or not; contents are read once.

        Raises:
            InputError: one is damaged, or does not continue the one before it.
        """
        held = {}
        for path in (self.folder / MANIFESTS).glob("*.json"):
            stamp, known = stamp_of(path), self._links.get(path.stem)
            held[path.stem] = known if known and known[0] == stamp else (stamp, _link(path))
        self._links = held
        links = sorted((link for _, link in held.values()), key=lambda link: link.manifest.place)
        for before, after in pairwise(links):
            self._require_next(before, after)
        return links

    def versions(self) -> list[int]:
        """Versions that are signed, ascending."""
        return sorted({link.manifest.version for link in self.chain()})

    def published(self) -> list[Link]:
        """The chain as far as it is published.

        Raises:
            InputError: as for ``chain``, or the newest that was published is not in it.
        """
        chain, latest = self.chain(), self.folder / LATEST
        if not latest.exists():
            return []
        newest = _link(latest).digest
        places = [place for place, link in enumerate(chain) if link.digest == newest]
        if not places:
            raise InputError(f"{latest}: this manifest is not in {MANIFESTS}/; copy the whole mirror")
        return chain[: places[0] + 1]

    def pending(self) -> list[Link]:
        """What comes after that: it wants cosignatures."""
        return self.chain()[len(self.published()) :]

    def add(self, signed: SignedManifest) -> Link:
        """Put a manifest at the end of the chain; durable on return. It is not published by that.

        Raises:
            InputError: it does not continue the chain.
        """
        link, chain = Link.of(signed), self.chain()
        if chain:
            self._require_next(chain[-1], link)
        write_atomically(self.manifest(link.digest), signed.to_bytes())
        return link

    def _require_next(self, before: Link, after: Link) -> None:
        try:
            require_next(before, after)
        except FeedRefusedError as error:
            raise InputError(
                f"{self.folder}: the manifest of version {after.manifest.version}, renewal "
                f"{after.manifest.renewal}, does not continue the one before it ({error.code.value}); two "
                "processes signed, or an older copy was put back: take the newest copy of the whole mirror"
            ) from error

    def cosign(self, digest: str, cosignature: Cosignature) -> bool:
        """Keep the cosignature of one of the witnesses, and publish what has enough of them.

        Args:
            digest: of a manifest of the chain.
            cosignature: from anybody; one of nobody who is waited for is dropped.

        Returns:
            Whether it was kept.
        """
        witnesses = self.witnesses
        with self.writing():
            found = [link for link in self.chain() if link.digest == digest]
            named = witnesses is not None and cosignature.key in {key.hex() for key in witnesses.keys}
            if not named or not found or not has_cosigned(cosignature, found[0].signed.content.encode()):
                return False
            signed = found[0].signed
            others = tuple(one for one in signed.cosignatures if one.key != cosignature.key)
            signed = msgspec.structs.replace(signed, cosignatures=(*others, cosignature))
            write_atomically(self.manifest(digest), signed.to_bytes())
            if (latest := self.folder / LATEST).exists() and _link(latest).digest == digest:
                write_atomically(latest, signed.to_bytes())
            self.publish()
        return True

    def publish(self) -> Link | None:
        """Make the newest manifest that enough witnesses have cosigned the newest one for readers; with the roots
        that ask for its signatures.

        Returns:
            It; None where nothing is published.
        """
        chain, published, witnesses = self.chain(), self.published(), self.witnesses
        for place in range(len(chain) - 1, len(published) - 1, -1):
            if witnesses is None or witnesses.suffice(chain[place].signed):
                if place == len(chain) - 1:
                    self.roots.take(self.next_roots.chain())
                write_atomically(self.folder / LATEST, chain[place].signed.to_bytes())
                return chain[place]
        if len(published) == len(chain):
            self.roots.take(self.next_roots.chain())
        return published[-1] if published else None

    @property
    def witnesses(self) -> Witnesses | None:
        """Whose cosignatures are waited for; None: nobody's.

        Raises:
            InputError: the file that says so is damaged.
        """
        path = self.folder / WITNESSES
        try:
            wanted = msgspec.json.decode(path.read_bytes(), type=_Wanted)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(f"{path}: not what fedboard writes there ({error})") from error
        return Witnesses.of(wanted.witnesses, wanted.cosignatures)

    def wait_for(self, witnesses: Witnesses | None) -> None:
        """Say whose cosignatures are waited for from now on."""
        path = self.folder / WITNESSES
        if witnesses is None:
            path.unlink(missing_ok=True)
        elif witnesses != self.witnesses:
            wanted = _Wanted([key.hex() for key in witnesses.keys], witnesses.threshold)
            write_atomically(path, msgspec.json.encode(wanted))

    def waiting(self) -> str | None:
        """Which boards wait for whom, as a sentence; None where nothing waits."""
        pending, witnesses = self.pending(), self.witnesses
        if not pending or witnesses is None:
            return None
        versions = sorted({link.manifest.version for link in pending})
        missing = ", ".join(key.hex()[:16] for key in witnesses.missing(pending[-1].signed))
        have = len(witnesses.cosigners(pending[-1].signed))
        return (
            f"version{'s' if len(versions) > 1 else ''} {', '.join(map(str, versions))} of the board, signed, "
            f"cosigned by {have} of {witnesses.threshold}; missing: {missing}"
        )

    def manifest(self, digest: str) -> Path:
        """Where a manifest is."""
        return self.folder / manifest_name(digest)

    @property
    def roots(self) -> RootFolder:
        """The roots that readers follow."""
        return RootFolder(self.folder / ROOTS)

    @property
    def next_roots(self) -> RootFolder:
        """The roots under which the end of the chain is signed; they become those of readers with it."""
        return RootFolder(self.folder / _NEXT_ROOTS)

    def file(self, sha256: str) -> Path:
        """Where a file is."""
        return self.folder / file_name(sha256)

    def board(self, link: Link) -> Board:
        """The board of a manifest.

        Raises:
            InputError: it is not there, or another one.
        """
        file, version = link.manifest.file, link.manifest.version
        place = self.file(file.sha256)
        try:
            with place.open("rb") as packed:
                content = b"".join(unpack(packed, board_size=file.board_size))
            board = Board.from_bytes(np.frombuffer(content, dtype=np.uint8))
        except FileNotFoundError as error:
            raise InputError(
                f"{self.folder}: the board file of version {version} is not there, and what is not seen is not "
                "signed; copy the whole mirror, or sign the boards into a new folder"
            ) from error
        except (OSError, FeedRefusedError) as error:
            raise InputError(f"{place}: version {version} of the board cannot be read ({error})") from error
        if board.digest != link.manifest.board_digest:
            raise InputError(f"{place}: this is not the board of version {version}; it was changed")
        return board


def _link(path: Path) -> Link:
    try:
        link = Link.of(SignedManifest.from_bytes(path.read_bytes()))
    except (OSError, FeedRefusedError) as error:
        raise InputError(
            f"{path}: this is no signed manifest of this version of fedboard; it was damaged, or the mirror is "
            "of another version: take a copy of the whole mirror, or sign the boards into a new folder"
        ) from error
    if path.name not in (LATEST, f"{link.digest}.json"):
        raise InputError(f"{path}: the content of this manifest is not the one of its name; it was changed")
    return link
