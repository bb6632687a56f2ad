"""A witness: its rules, its memory, and how it asks a server what wants cosigning.

It cosigns a manifest only if it continues the last one of the run that it has cosigned: the same ledger, one board
a version, releases that begin with those that were there. Its memory is all that its word is worth: a witness that
goes back to an older copy of it can be told another story. So a run that it does not remember is begun only where
a person says so. It judges no signature of the operator's: readers do.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.boards.grpc_source import channel_to, grpc_failures
from fedboard.common.boards.board_signature import Cosignature, SignedManifest
from fedboard.common.boards.boards_pb2 import CosignReply, CosignRequest, PendingManifest, PendingRequest
from fedboard.common.boards.manifest import Link, contradict, require_next
from fedboard.common.boards.methods import COSIGN, MAX_PENDING_BYTES, PENDING, method
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.boards.witnesses import cosigned
from fedboard.common.certificate import Certificate
from fedboard.common.certificate.record import content_of
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.files import held_alone, write_atomically
from fedboard.common.privacy.events import digest

_LOOK_SECONDS: Final = 0.2
_REPLY_SECONDS: Final = 30.0


class NotCosignedError(FedboardError):
    """A manifest is not cosigned; the sentence says why."""


class _Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is remembered of one run."""

    manifest: SignedManifest
    """The last one that was cosigned."""
    releases: str
    """SHA-256 of the canonical JSON of the releases that its board's certificate lists."""


class _Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    runs: dict[str, _Run]


class Witness:
    """One witness of some runs. One thread at a time.

    Guarantee: all manifests of a run that it ever cosigned are of one chain, across crashes: what it cosigns is on
    disk before anybody has the cosignature.
    """

    def __init__(self, key: Ed25519PrivateKey, memory: Path, *, begin: Collection[str] = ()) -> None:
        """Take up a memory, or begin one.

        Args:
            key: cosigns.
            memory: its file; never go back to an older copy of it.
            begin: names of runs that may be begun where nothing is remembered of them.

        Raises:
            InputError: the file cannot be read.
            PrivacyError: it is not the memory of this key.
        """
        self._key, self._path, self._begin = key, memory, frozenset(begin)
        self.public = key.public_key().public_bytes_raw().hex()
        self._runs: dict[str, _Run] = {}
        if memory.exists():
            self._runs = self._read()

    def alone(self) -> AbstractContextManager[None]:
        """Be the one process that cosigns from this memory.

        Raises:
            InputError: another one does.
        """
        refusal = f"{self._path}: another witness works with this memory; stop it first"
        return held_alone(self._path.with_name(f"{self._path.name}.lock"), refusal=refusal)

    @property
    def known(self) -> dict[str, Link]:
        """Run to the last manifest that was cosigned."""
        return {name: Link.of(run.manifest) for name, run in self._runs.items()}

    def cosign(self, signed: SignedManifest, certificate: bytes) -> Cosignature | None:
        """Cosign a manifest that continues the last one; it is on disk before this returns.

        Args:
            signed: as a server offers it.
            certificate: of its board, JSON; empty where it has none.

        Returns:
            None for one that is no newer than the last.

        Raises:
            NotCosignedError: it contradicts the last one, which is kept as evidence with it, does not continue it,
                is not what its certificate says, or nothing is remembered of its run.
        """
        try:
            link = Link.of(signed)
        except FeedRefusedError as error:
            raise NotCosignedError(f"what came is no manifest ({error.code.value})") from error
        manifest, last = link.manifest, self._runs.get(link.manifest.run)
        releases = _releases(link, certificate)
        if last is None:
            self._require_begun(link)
        else:
            before = Link.of(last.manifest)
            if link.digest == before.digest:
                return cosigned(self._key, signed.content.encode())
            self._require_one_story(before, link)
            if manifest.place < before.manifest.place:
                return None
            try:
                require_next(before, link)
            except FeedRefusedError as error:
                self._keep_evidence(before, link)
                raise NotCosignedError(
                    f"version {manifest.version} of {manifest.run} does not continue version "
                    f"{before.manifest.version}, which was cosigned here ({error.code.value}); both are kept "
                    f"beside {self._path}"
                ) from error
            if digest(releases[: before.manifest.releases]) != last.releases:
                self._keep_evidence(before, link)
                raise NotCosignedError(
                    f"the ledger of version {manifest.version} of {manifest.run} does not begin with the releases "
                    f"that were cosigned with version {before.manifest.version}: it was rolled back or rewritten; "
                    f"both manifests are kept beside {self._path}"
                )
        self._remember(manifest.run, _Run(signed, digest(releases)))
        return cosigned(self._key, signed.content.encode())

    def _require_begun(self, link: Link) -> None:
        run = link.manifest.run
        if run in self._begin:
            return
        lost = any(one.key == self.public for one in link.signed.cosignatures)
        raise NotCosignedError(
            f"{self._path} remembers nothing of the run {run}"
            + (", and this witness has cosigned it before: its memory was lost" if lost else "")
            + ". Nothing of it is cosigned. Put the newest copy of the memory back; or, where there is none or "
            f"this is the first time, begin with what the server shows: --begin {run}"
        )

    def _require_one_story(self, before: Link, link: Link) -> None:
        same_place = link.manifest.place == before.manifest.place
        if not same_place and not contradict(before.manifest, link.manifest):
            return
        self._keep_evidence(before, link)
        raise NotCosignedError(
            f"version {link.manifest.version} of {link.manifest.run} contradicts version "
            f"{before.manifest.version}, which was cosigned here: another board, another ledger, or signed twice; "
            f"both are kept beside {self._path}"
        )

    def _keep_evidence(self, before: Link, link: Link) -> None:
        for number, one in enumerate((before, link), start=1):
            place = self._path.with_name(f"{self._path.name}.contradiction-{number}.json")
            write_atomically(place, one.signed.to_bytes())

    def _remember(self, name: str, run: _Run) -> None:
        runs = self._runs | {name: run}
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._path, msgspec.json.encode(_Memory(self.public, runs)))
        self._runs = runs

    def _read(self) -> dict[str, _Run]:
        try:
            memory = msgspec.json.decode(self._path.read_bytes(), type=_Memory)
            if any(Link.of(run.manifest).manifest.run != name for name, run in memory.runs.items()):
                raise ValueError("a run under another name")
        except OSError as error:
            raise InputError(f"{self._path}: this memory cannot be read ({error.strerror})") from error
        except (ValueError, FedboardError) as error:
            raise PrivacyError(
                f"{self._path}: this is no whole memory of a witness; put its newest copy back, or begin again "
                "with another key"
            ) from error
        if memory.key != self.public:
            raise PrivacyError(
                f"{self._path}: this is the memory of the witness {memory.key[:16]}, and this key is "
                f"{self.public[:16]}; each key has a memory of its own"
            )
        return memory.runs


def _releases(link: Link, certificate: bytes) -> list[Mapping[str, Any]]:
    """The releases of a board's certificate, which must be the one that its manifest names, of the same ledger."""
    manifest = link.manifest
    if not certificate and manifest.certificate_digest is None and not manifest.releases:
        return []
    try:
        found = Certificate.from_json(certificate)
        own = digest(content_of(found))
    except FedboardError as error:
        raise NotCosignedError(
            f"version {manifest.version} of {manifest.run} came without its certificate"
        ) from error
    stated = (manifest.certificate_digest, manifest.releases, manifest.ledger_head, manifest.board_digest)
    if own != found.digest or stated != (own, len(found.releases), found.ledger_head, found.board_digest):
        raise NotCosignedError(
            f"the certificate of version {manifest.version} of {manifest.run} is not the one that its manifest "
            "states"
        )
    return list(found.releases)


class Server:
    """The board service that a witness asks. It connects out, and holds no port."""

    def __init__(self, address: str, *, tls: bool = True, authority: Path | None = None) -> None:
        """Nothing is asked yet.

        Args:
            address: ``host:port``.
            tls: whether the service has a certificate.
            authority: PEM file of who vouches for it; None: the system's.
        """
        self._channel = channel_to(address, tls=tls, authority=authority, largest=MAX_PENDING_BYTES)

    def attend(
        self, witness: Witness, *, seconds: float, told: Callable[[], bool] = lambda: False
    ) -> Iterator[Link]:
        """Cosign what wants it, and hand it in; ends when the service does, or after so many seconds.

        Args:
            witness: knows what it has cosigned before.
            seconds: most.
            told: whether to stop before.

        Yields:
            Each manifest that was cosigned and taken.

        Raises:
            NotCosignedError: something is offered that is not cosigned.
            FeedRefusedError: the service cannot be reached.
        """
        request = PendingRequest(known=[_before(link) for link in witness.known.values()])
        ask = self._channel.unary_stream(
            method(PENDING), PendingRequest.SerializeToString, PendingManifest.FromString
        )
        stream = ask(request, timeout=seconds)
        watching = threading.Event()
        threading.Thread(target=_stop_when_told, args=(stream, told, watching), daemon=True).start()
        try:
            with grpc_failures():
                for offered in stream:
                    signed = SignedManifest.from_bytes(offered.manifest)
                    cosignature = witness.cosign(signed, offered.certificate)
                    if cosignature is not None and self._is_new(signed, cosignature):
                        self._hand_in(signed, cosignature)
                        yield Link.of(signed)
        except FeedRefusedError:
            if stream.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED):
                raise
        finally:
            watching.set()
            stream.cancel()

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def _is_new(self, signed: SignedManifest, cosignature: Cosignature) -> bool:
        return all(one.key != cosignature.key for one in signed.cosignatures)

    def _hand_in(self, signed: SignedManifest, cosignature: Cosignature) -> None:
        call = self._channel.unary_unary(
            method(COSIGN), CosignRequest.SerializeToString, CosignReply.FromString
        )
        request = CosignRequest(
            manifest=signed.digest,
            key=bytes.fromhex(cosignature.key),
            signature=bytes.fromhex(cosignature.signature),
        )
        call(request, timeout=_REPLY_SECONDS)


def _stop_when_told(stream: Any, told: Callable[[], bool], ended: threading.Event) -> None:
    while not ended.wait(_LOOK_SECONDS):
        if told():
            stream.cancel()
            return


def _before(link: Link) -> str:
    """What the server leaves out: all up to the one before the last, whose cosignature may never have arrived."""
    return link.manifest.previous_manifest or ""
