"""Where boards come from: a board service (``grpc_source``), a web server with a mirror on it, or a folder; and how
a reader waits for one that is busy or away.

A source is never trusted: what it says is verified by whoever asks it.
"""

import contextlib
import http.client
import io
import random
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, cast, runtime_checkable

from fedboard.client.boards.mirror_source import MirrorSource
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.methods import CHUNK_BYTES, allowed_seconds
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import is_address, parse_address
from fedboard.common.messages.certificate_dates import OUT_OF_DATE, read_authority

_Got = TypeVar("_Got")

PASSING: Final = frozenset({FeedCode.UNREACHABLE, FeedCode.RATE_LIMITED})
"""Refusals after which it is worth while to ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often and how soon a reader asks again. Waits are drawn anew, so that readers do not come all at once."""

    attempts: int = 6
    """Failures in a row, without a single byte between them, after which she gives up."""
    first_seconds: float = 0.5
    """The first wait is drawn evenly from zero to this; each further bound is twice as long."""
    longest_seconds: float = 60.0
    poll_seconds: float = 60.0
    """Between two looks at a source that cannot tell of new boards by itself."""
    piece_seconds: float = 30.0
    """For each ``CHUNK_BYTES`` of a file, over all attempts, however often a byte comes."""
    sleep: Callable[[float], None] = time.sleep

    def wait(self, failures: int) -> None:
        """Sleep after so many failures in a row (>= 1)."""
        bound = min(self.longest_seconds, self.first_seconds * 2 ** (failures - 1))
        self.sleep(random.uniform(0.0, bound))

    def ask(self, ask: Callable[[], _Got]) -> _Got:
        """Ask, and again while the source is busy or away.

        Args:
            ask: one question.

        Raises:
            FeedRefusedError: of another kind, or the last of so many.
        """
        failures = 0
        while True:
            try:
                return ask()
            except FeedRefusedError as error:
                failures += 1
                if error.code not in PASSING or failures >= self.attempts:
                    raise
                self.wait(failures)


class BoardSource(Protocol):
    """What a reader asks. Every method raises ``FeedRefusedError`` with a code where nothing usable comes."""

    def manifest(self, digest: str | None = None) -> SignedManifest:
        """The newest manifest, or the one whose content has this SHA-256."""
        ...

    def read(self, manifest: Manifest, offset: int) -> Iterator[bytes]:
        """The bytes of its packed board from an offset on, in pieces of at most ``CHUNK_BYTES``."""
        ...

    def root(self, version: int) -> bytes:
        """The root document of a version, ``not-found`` where there is none; at most ``MAX_ROOT_BYTES`` + 1."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


@runtime_checkable
class TellingSource(BoardSource, Protocol):
    """A source that tells of new boards by itself."""

    def watch(self, known: int | None, *, seconds: float | None = None) -> Iterator[SignedManifest]:
        """The newest manifest if it is not known, then each one as it is published; ends when the source does, or
        after so many seconds.
        """
        ...


def open_source(place: str, *, authority: Path | None = None, seconds: float = 30.0) -> BoardSource:
    """Open a source by the form of its name.

    Args:
        place: ``grpcs://host:port`` or ``host:port``, ``grpc://host:port`` (no TLS), ``https://...``, ``http://...``
            or a folder.
        authority: PEM file of the certificate authority to trust for TLS; None: the usual ones.
        seconds: for a manifest, and for each ``CHUNK_BYTES`` of a file, before it counts as unreachable.

    Raises:
        InputError: no such folder, an unknown form, or no certificate in the authority's file.
    """
    scheme, separator, rest = place.partition("://")
    if not separator and is_address(place) and not Path(place).exists():
        scheme, separator, rest = "grpcs", "://", place
    if not separator:
        if not Path(place).is_dir():
            raise InputError(
                f"{place}: no such folder; give a mirror's folder, or grpcs://host:port or https://..."
            )
        return FolderSource(Path(place))
    if scheme in ("http", "https"):
        _require_web_address(place)
        return HttpSource(place, authority=authority, seconds=seconds)
    if scheme in ("grpc", "grpcs"):
        from fedboard.client.boards.grpc_source import (
            GrpcSource,  # 25 MB that a reader of mirrors can do without
        )

        parse_address(rest.rstrip("/"), name="the address of a board service")
        return GrpcSource(rest.rstrip("/"), tls=scheme == "grpcs", authority=authority, seconds=seconds)
    raise InputError(f"{place}: give grpcs://host:port, grpc://host:port, https://..., or a mirror's folder")


def _require_web_address(place: str) -> None:
    try:
        parts = urllib.parse.urlsplit(place)
        sound = bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port beyond 65535
        sound = False
    if not sound:
        raise InputError(
            f"{place}: not a web address with a host, and a port in [1, 65535] where it names one"
        )


class HttpSource(MirrorSource):
    """A mirror on a web server, with or without support for ranges."""

    def __init__(self, place: str, *, authority: Path | None = None, seconds: float = 30.0) -> None:
        self._place, self._seconds = place.rstrip("/"), seconds
        context = ssl.create_default_context(cadata=None if authority is None else read_authority(authority))
        self._opener = urllib.request.build_opener(_InTime(context=context), _NoRedirectDown())

    def pieces(self, name: str, size: int = 0, offset: int = 0) -> Generator[bytes, None, None]:
        """By a request for a range; where the server sends the whole file, what is known is skipped."""
        request = _Request(f"{self._place}/{name}", headers={"Range": f"bytes={offset}-"} if offset else {})
        request.allowed = allowed_seconds(size, self._seconds)
        with _http_failures(), self._opener.open(request, timeout=self._seconds) as answer:
            skip = offset if answer.status != http.client.PARTIAL_CONTENT else 0
            while skip > 0 and (skipped := len(answer.read(min(skip, CHUNK_BYTES)))):
                skip -= skipped
            while piece := answer.read(CHUNK_BYTES):
                yield piece


class _Request(urllib.request.Request):
    allowed: float = 30.0
    """Seconds for all of the answer."""


class _Timely(io.RawIOBase):
    """What comes over a socket within a time; its own timeout, of silence, begins again with each byte."""

    def __init__(self, stream: io.RawIOBase, sock: socket.socket, allowed: float) -> None:
        self._stream, self._sock, self._silent = stream, sock, sock.gettimeout() or allowed
        self._end = time.monotonic() + allowed

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Wait as long as is left."""
        self._sock.settimeout(max(min(self._silent, self._end - time.monotonic()), 1e-3))
        return cast("int | None", self._stream.readinto(buffer))

    def close(self) -> None:
        """Let go of the socket."""
        self._stream.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, allowed: float, sock: socket.socket, *more: Any, **named: Any) -> None:
        super().__init__(sock, *more, **named)
        self.fp = io.BufferedReader(_Timely(self.fp.detach(), sock, allowed))


class _InTime(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    def do_open(self, http_class: Any, req: urllib.request.Request, **more: Any) -> Any:
        """Within a time for all of the answer."""
        answer = partial(_Answer, getattr(req, "allowed", _Request.allowed))
        timed: Any = type(http_class.__name__, (http_class,), {"response_class": answer})
        return super().do_open(timed, req, **more)


class FolderSource(MirrorSource):
    """A mirror's folder, on this machine or mounted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pieces(self, name: str, size: int = 0, offset: int = 0) -> Generator[bytes, None, None]:
        """From the disk."""
        try:
            with (self._folder / name).open("rb") as stream:
                stream.seek(offset)
                while piece := stream.read(CHUNK_BYTES):
                    yield piece
        except OSError as error:
            raise FeedRefusedError(FeedCode.NOT_FOUND) from error


class _NoRedirectDown(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to http."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Refuse to leave TLS."""
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise FeedRefusedError(FeedCode.UNREACHABLE)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextlib.contextmanager
def _http_failures() -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            codes = dict.fromkeys(
                (403, 404, 410), FeedCode.NOT_FOUND
            )  # 403: of object stores that list nothing
            codes |= {429: FeedCode.RATE_LIMITED, 503: FeedCode.RATE_LIMITED}
            raise FeedRefusedError(codes.get(error.code, FeedCode.UNREACHABLE)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise FeedRefusedError(_why_unreached(reason)) from error


def _why_unreached(reason: object) -> FeedCode:
    if not isinstance(reason, ssl.SSLCertVerificationError):
        return FeedCode.UNREACHABLE
    out_of_date = reason.verify_message.rstrip(".") in OUT_OF_DATE
    return FeedCode.EXPIRED if out_of_date else FeedCode.UNTRUSTED
