"""A repository of The Update Framework (TUF) beside a mirror, so that any TUF client fetches boards too.

``metadata/`` holds the roots, ``timestamp.json``, and a snapshot and a list of targets for each time that something
changed; ``targets/RUN/`` the exact boards, and the newest one under a name of its own. Roots are the mirror's, so
that both kinds of readers follow the same keys; the boards' keys sign the other three. It is written here and not
by a library: what TUF signs is the canonical JSON that roots need anyway.

Reference: the TUF specification 1.0, sections 4 and 6.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fedboard.common.board_service.board_signature import PinnedKey, SignedManifest
from fedboard.common.board_service.layout import LATEST, MANIFESTS, ROOTS, file_name
from fedboard.common.board_service.manifest import BoardFile, Encoding, Manifest
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.keys.canonical_json import canonical_json
from fedboard.common.keys.root_folder import RootFolder
from fedboard.common.keys.roots import SPEC_VERSION, Root
from fedboard.common.keys.validity import DAY_SECONDS, Clock, utc_seconds, utc_text

METADATA: Final = "metadata"
TARGETS: Final = "targets"
NEWEST: Final = "newest.board"
"""What a client asks for that wants the newest board of a run, behind the run's name."""
_TIMESTAMP: Final = "timestamp.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TufRepository:
    """The repository of one mirror."""

    mirror: Path
    """Its folder, with signed manifests and files."""
    chain: tuple[Root, ...]
    """The roots, from version 1 on."""
    sign: Callable[[bytes], Mapping[str, bytes]]
    """Signs the canonical form of something with each key: signatures by TUF's id of the key."""
    days: float
    """How long what is signed is good."""
    clock: Clock = time.time

    @property
    def folder(self) -> Path:
        """Of the metadata."""
        return self.mirror / METADATA

    def write(self) -> bool:
        """Write what changed, or is to be signed again: half of its time is over.

        Metadata comes last, the timestamp at the very end, so that a client never meets a name without its file.

        Returns:
            Whether anything was written.

        Raises:
            InputError: there is no root of version 1.
        """
        if not self.chain or self.chain[0].version != 1:
            raise InputError(
                f"{self.mirror}: TUF clients begin with 1.root.json, and there is none; make roots with fedboard "
                "keys root, and give their folder with --roots"
            )
        before = self._before()
        if before is not None and self._left(before) and self._is_newest():
            return False
        targets = self._targets()
        if before is not None and not self._is_due(before, targets):
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        RootFolder(self.folder).take(list(self.chain))
        version = 1 if before is None else before["timestamp"]["version"] + 1
        listed = self._signed("targets", version, targets=targets)
        write_atomically(self.folder / f"{version}.targets.json", listed)
        snapshot = self._signed("snapshot", version, meta={"targets.json": _told(listed, version)})
        write_atomically(self.folder / f"{version}.snapshot.json", snapshot)
        stamp = self._signed("timestamp", version, meta={"snapshot.json": _told(snapshot, version)})
        write_atomically(self.folder / _TIMESTAMP, stamp)
        return True

    def _is_due(self, before: Mapping[str, Any], targets: Mapping[str, Any]) -> bool:
        newest = RootFolder(self.folder).versions()[-1]
        return (
            not self._left(before)
            or before["targets"]["targets"] != targets
            or newest != self.chain[-1].version
        )

    def _left(self, before: Mapping[str, Any]) -> bool:
        """Whether more than half of its time is left."""
        left = utc_seconds(before["timestamp"]["expires"]) - self.clock()
        return left >= self.days * DAY_SECONDS / 2

    def _is_newest(self) -> bool:
        """Whether nothing was published since, by the times of files: not every look is one at all boards."""
        published = [self.mirror / LATEST, *(self.mirror / ROOTS).glob("*.root.json")]
        written = (self.folder / _TIMESTAMP).stat().st_mtime_ns
        return all(path.stat().st_mtime_ns < written for path in published)

    def _before(self) -> Mapping[str, Any] | None:
        """What was signed last."""
        try:
            stamp = json.loads((self.folder / _TIMESTAMP).read_bytes())["signed"]
            listed = json.loads((self.folder / f"{stamp['version']}.targets.json").read_bytes())["signed"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError) as error:
            raise InputError(
                f"{self.folder}: the metadata there cannot be read; put its files back, for clients refuse "
                "versions that are older than those that they saw"
            ) from error
        return {"timestamp": stamp, "targets": listed}

    def _targets(self) -> dict[str, Any]:
        """The boards by name, with their files where a client looks for them."""
        keys, found = PinnedKey(self.chain[-1]), dict[str, Any]()
        for path in sorted((self.mirror / MANIFESTS).glob("[0-9]*.json"), key=lambda path: int(path.stem)):
            manifest = keys.open(SignedManifest.from_bytes(path.read_bytes()))
            file = manifest.file(Encoding.EXACT)
            if file is None:
                continue
            run = _folder_of(manifest.run)
            for name in (f"board-{manifest.version:04d}.board", NEWEST):
                found[f"{run}/{name}"] = _target(manifest, file)
                self._place(run, name, file)
        return found

    def _place(self, run: str, name: str, file: BoardFile) -> None:
        place = self.mirror / TARGETS / run / f"{file.sha256}.{name}"
        if place.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        source, arriving = self.mirror / file_name(file.sha256), place.with_suffix(".part")
        arriving.unlink(missing_ok=True)
        try:
            os.link(source, arriving)
        except OSError:  # a disk without links
            shutil.copyfile(source, arriving)
        os.replace(arriving, place)

    def _signed(self, kind: str, version: int, **fields: Any) -> bytes:
        signed = {
            "_type": kind,
            "spec_version": SPEC_VERSION,
            "version": version,
            "expires": utc_text(self.clock() + self.days * DAY_SECONDS),
            **fields,
        }
        made = self.sign(canonical_json(signed))
        signatures = [{"keyid": name, "sig": signature.hex()} for name, signature in sorted(made.items())]
        return json.dumps({"signatures": signatures, "signed": signed}, sort_keys=True).encode()


def _target(manifest: Manifest, file: BoardFile) -> dict[str, Any]:
    return {
        "length": file.size,
        "hashes": {"sha256": file.sha256},
        "custom": {
            "run": manifest.run,
            "version": manifest.version,
            "board_digest": manifest.board_digest,
            "protection": manifest.protection.value,
        },
    }


def _told(content: bytes, version: int) -> dict[str, Any]:
    return {
        "version": version,
        "length": len(content),
        "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
    }


def _folder_of(run: str) -> str:
    """A run's name as part of a path.

    Raises:
        InputError: it would lead elsewhere.
    """
    if run in ("", ".", "..") or any(sign in run for sign in "/\\\0"):
        raise InputError(
            f"a run called {run!r} cannot be a folder of a TUF repository; export it under another --run"
        )
    return run
