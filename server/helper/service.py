"""The gRPC service of a helper, for its leader alone."""

import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.wire.addresses import parse_address
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.server.helper.identity import helper_identity, identity_text
from fedboard.server.helper.messages import (
    BEGIN,
    MOST_BYTES,
    SERVICE,
    TAKE,
    TOTAL,
    key_reply,
    read_begin,
    read_take,
    read_total,
    refused_reply,
    share_reply,
    taken_reply,
)
from fedboard.server.helper.record import AnsweredRounds
from fedboard.server.helper.rounds import HelperRounds
from fedboard.server.helper.token import TOKEN_HEADER, read_token
from fedboard.server.tls import require_pair

_THREADS = 4
_FAREWELL_SECONDS = 1.0
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperSettings:
    """What a helper needs."""

    state: Path
    """Folder of its record."""
    identity: Path
    """Its private key; made where there is none."""
    certificate: Path
    """PEM chain for TLS."""
    private_key: Path
    """PEM key of the certificate."""
    address: str = "127.0.0.1:0"
    """``host:port``; port 0 takes a free one."""
    token: Path | None = None
    """Secret that its leader must know; None: whoever reaches the port may ask."""
    least_clients: int = 2

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            InputError: it is none.
        """
        parse_address(self.address, name="the address of the helper", listening=True)


class RunningHelper:
    """A helper that listens."""

    def __init__(self, settings: HelperSettings) -> None:
        """Start.

        Raises:
            InputError: the address, the certificate or a key cannot be used.
            PrivacyError: another process uses the state folder, or the record was tampered with.
            StorageError: the record cannot be read.
        """
        key = helper_identity(settings.identity)
        self.identity = identity_text(key)
        """As devices and the leader pin it."""
        self._token = None if settings.token is None else read_token(settings.token)
        credentials = _credentials(settings)
        self._answered = AnsweredRounds(settings.state)
        self._rounds = HelperRounds(key, self._answered, least_clients=settings.least_clients)
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, "helper"), options=_OPTIONS)
        self._server.add_generic_rpc_handlers((self._handlers(),))
        try:
            self.port = int(self._server.add_secure_port(settings.address, credentials))
        except RuntimeError:
            self.port = 0
        if not self.port:
            self._answered.close()
            raise InputError(
                f"the helper cannot listen on {settings.address}; the port is in use, or the address is none of "
                "this machine's"
            )
        self._server.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; False where it still runs after so many seconds."""
        return not self._server.wait_for_termination(seconds)

    def close(self) -> None:
        """Stop; rounds that are open are lost. A call that does not end is not waited for."""
        self._server.stop(_FAREWELL_SECONDS).wait(10 * _FAREWELL_SECONDS)
        self._answered.close()

    def __enter__(self) -> "RunningHelper":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _handlers(self) -> Any:
        methods = {BEGIN: self._begin, TAKE: self._take, TOTAL: self._total}
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(self._answering(method))
                for name, method in methods.items()
            },
        )

    def _answering(self, method: Callable[[bytes], bytes]) -> Callable[[bytes, Any], bytes]:
        def answer(message: bytes, context: Any) -> bytes:
            if not self._is_leader(context):
                return refused_reply(Refusal.NOT_ALLOWED)
            try:
                return method(message)
            except RefusedError as error:
                return refused_reply(error.code)
            except FedboardError:
                return refused_reply(Refusal.INTERNAL)

        return answer

    def _is_leader(self, context: Any) -> bool:
        if self._token is None:
            return True
        told = [value for name, value in context.invocation_metadata() if name == TOKEN_HEADER]
        return len(told) == 1 and hmac.compare_digest(str(told[0]).encode(), self._token.encode())

    def _begin(self, message: bytes) -> bytes:
        return key_reply(self._rounds.begin(*read_begin(message)))

    def _take(self, message: bytes) -> bytes:
        self._rounds.take(*read_take(message))
        return taken_reply()

    def _total(self, message: bytes) -> bytes:
        return share_reply(self._rounds.total(*read_total(message)))


def _credentials(settings: HelperSettings) -> Any:
    require_pair(settings.certificate, settings.private_key)
    pair = settings.private_key.read_bytes(), settings.certificate.read_bytes()
    return grpc.ssl_server_credentials([pair])
