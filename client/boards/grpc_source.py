"""A board service as a source of boards."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import grpc

from fedboard.common.boards.board_signature import Cosignature, SignedManifest
from fedboard.common.boards.boards_pb2 import (
    GetRequest,
    LatestRequest,
    Part,
    RootDocument,
    RootRequest,
    WatchRequest,
)
from fedboard.common.boards.boards_pb2 import SignedManifest as SignedMessage
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.methods import (
    GET,
    LATEST,
    MAX_MESSAGE_BYTES,
    ROOT,
    WATCH,
    allowed_seconds,
    method,
)
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.roots import MOST_KEYS
from fedboard.common.boards.witnesses import MOST_COSIGNATURES
from fedboard.common.messages.certificate_dates import NOT_VOUCHED_FOR, OUT_OF_DATE, read_authority

_CODES = {
    grpc.StatusCode.NOT_FOUND: FeedCode.NOT_FOUND,
    grpc.StatusCode.UNIMPLEMENTED: FeedCode.NOT_FOUND,  # a service that is older than what is asked for
    grpc.StatusCode.INVALID_ARGUMENT: FeedCode.MALFORMED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: FeedCode.RATE_LIMITED,
}


def channel_to(
    address: str, *, tls: bool = True, authority: Path | None = None, largest: int = MAX_MESSAGE_BYTES
) -> grpc.Channel:
    """A channel to a board service.

    Args:
        address: ``host:port``.
        tls: whether the service has a certificate.
        authority: PEM file of who vouches for it; None: the system's.
        largest: most bytes of one answer.
    """
    options = [
        ("grpc.max_receive_message_length", largest),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.enable_http_proxy", 0),
    ]
    if not tls:
        return grpc.insecure_channel(address, options=options)
    roots = None if authority is None else read_authority(authority).encode("ascii")
    return grpc.secure_channel(
        address, grpc.ssl_channel_credentials(root_certificates=roots), options=options
    )


class GrpcSource:
    """A board service."""

    def __init__(
        self, address: str, *, tls: bool = True, authority: Path | None = None, seconds: float = 30.0
    ) -> None:
        self._channel = channel_to(address, tls=tls, authority=authority)
        self._seconds = seconds

    def manifest(self, digest: str | None = None) -> SignedManifest:
        """By ``Latest``, or by ``Get`` without a file."""
        with grpc_failures():
            if digest is None:
                call = self._channel.unary_unary(
                    method(LATEST), LatestRequest.SerializeToString, SignedMessage.FromString
                )
                return signed_of(call(LatestRequest(), timeout=self._seconds))
            for part in self._get(GetRequest(manifest=digest), self._seconds):
                if part.WhichOneof("part") == "manifest":
                    return signed_of(part.manifest)
        raise FeedRefusedError(FeedCode.MALFORMED)

    def read(self, manifest: Manifest, offset: int) -> Iterator[bytes]:
        """By ``Get``."""
        request = GetRequest(digest=manifest.board_digest, file=True, offset=offset)
        allowed = allowed_seconds(manifest.file.size - offset, self._seconds)
        with grpc_failures():
            for part in self._get(request, allowed):
                if part.WhichOneof("part") == "chunk":
                    yield part.chunk

    def root(self, version: int) -> bytes:
        """By ``Root``."""
        with grpc_failures():
            call = self._channel.unary_unary(
                method(ROOT), RootRequest.SerializeToString, RootDocument.FromString
            )
            return bytes(call(RootRequest(version=version), timeout=self._seconds).content)

    def watch(self, known: int | None, *, seconds: float | None = None) -> Iterator[SignedManifest]:
        """The newest manifest if it is not known, then each one as it is published; ends when the service does, or
        after so many seconds.
        """
        call = self._channel.unary_stream(
            method(WATCH), WatchRequest.SerializeToString, SignedMessage.FromString
        )
        stream = call(WatchRequest(known=known), timeout=seconds)
        try:
            with grpc_failures():
                for message in stream:
                    yield signed_of(message)
        except FeedRefusedError:
            if stream.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        finally:
            stream.cancel()

    def close(self) -> None:
        """Close the channel; whatever runs over it ends."""
        self._channel.close()

    def _get(self, request: GetRequest, seconds: float) -> Iterator[Part]:
        call = self._channel.unary_stream(method(GET), GetRequest.SerializeToString, Part.FromString)
        stream = call(request, timeout=seconds)
        try:
            yield from stream
        finally:
            stream.cancel()


def signed_of(message: SignedMessage) -> SignedManifest:
    """A signed manifest as it came over gRPC.

    Raises:
        FeedRefusedError: ``malformed``.
    """
    try:
        return SignedManifest(
            content=message.content.decode(),
            signatures=tuple(one.hex() for one in message.signatures[:MOST_KEYS]),
            cosignatures=tuple(
                Cosignature(key=one.key.hex(), signature=one.signature.hex())
                for one in message.cosignatures[:MOST_COSIGNATURES]
            ),
        )
    except UnicodeDecodeError as error:
        raise FeedRefusedError(FeedCode.MALFORMED) from error


@contextlib.contextmanager
def grpc_failures() -> Iterator[None]:
    """Turn gRPC's errors into refusals with a code."""
    try:
        yield
    except grpc.RpcError as error:
        raise FeedRefusedError(_code(error)) from error


def _code(error: grpc.RpcError) -> FeedCode:
    details = (error.details() or "").lower() if error.code() is grpc.StatusCode.UNAVAILABLE else ""
    if any(sign in details for sign in OUT_OF_DATE):
        return FeedCode.EXPIRED
    if any(sign in details for sign in NOT_VOUCHED_FOR):
        return FeedCode.UNTRUSTED
    return _CODES.get(error.code(), FeedCode.UNREACHABLE)
