"""A board service as a source of boards."""

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path

import grpc

from fedboard.client.boards.mirror_source import MirrorSource
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.boards_pb2 import Chunk, FetchRequest, WatchRequest
from fedboard.common.boards.methods import FETCH, MAX_MESSAGE_BYTES, WATCH, allowed_seconds, method
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
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


class GrpcSource(MirrorSource):
    """A board service, which serves the files of a mirror."""

    def __init__(
        self, address: str, *, tls: bool = True, authority: Path | None = None, seconds: float = 30.0
    ) -> None:
        self._channel = channel_to(address, tls=tls, authority=authority)
        self._seconds = seconds

    def pieces(self, name: str, size: int = 0, offset: int = 0) -> Generator[bytes, None, None]:
        """By ``Fetch``."""
        call = self._channel.unary_stream(method(FETCH), FetchRequest.SerializeToString, Chunk.FromString)
        stream = call(FetchRequest(name=name, offset=offset), timeout=allowed_seconds(size, self._seconds))
        try:
            with grpc_failures():
                for chunk in stream:
                    yield chunk.content
        finally:
            stream.cancel()

    def watch(self, known: int | None, *, seconds: float | None = None) -> Iterator[SignedManifest]:
        """The newest manifest if it is not known, then each one as it is published; ends when the service does, or
        after so many seconds.
        """
        call = self._channel.unary_stream(method(WATCH), WatchRequest.SerializeToString, Chunk.FromString)
        stream = call(WatchRequest(known=known), timeout=seconds)
        try:
            with grpc_failures():
                for chunk in stream:
                    yield SignedManifest.from_bytes(chunk.content)
        except FeedRefusedError:
            if stream.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
        finally:
            stream.cancel()

    def close(self) -> None:
        """Close the channel; whatever runs over it ends."""
        self._channel.close()


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
