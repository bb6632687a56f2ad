"""The gRPC service of a helper, for its leader alone."""

import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.messages.addresses import parse_address
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.two_server.helper import TwoServerRules
from fedboard.server.grpc_port import require_free
from fedboard.server.helper import messages
from fedboard.server.helper.messages import (
    Begin,
    Take,
    Total,
    helper_identity,
    identity_text,
    read_token,
    unpacked,
)
from fedboard.server.helper.rounds import AnsweredRounds, HelperRounds
from fedboard.server.tls import require_pair

_THREADS = 4
_FAREWELL_SECONDS = 1.0
_OPTIONS = (
    ("grpc.max_receive_message_length", messages.MOST_BYTES),
    ("grpc.max_send_message_length", messages.MOST_BYTES),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)


class RunningHelper:
    """A helper that listens."""

    def __init__(
        self,
        *,
        state: Path,
        identity: Path,
        certificate: Path,
        private_key: Path,
        address: str = "127.0.0.1:0",
        token: Path | None = None,
        least_clients: int = 2,
    ) -> None:
        """Start.

        Args:
            state: folder of its record.
            identity: its private key; made where there is none.
            certificate: PEM chain for TLS.
            private_key: PEM key of the certificate.
            address: ``host:port``; port 0 takes a free one.
            token: secret that its leader must know; None: whoever reaches the port may ask.
            least_clients: a leader that wants sums of fewer is refused.

        Raises:
            InputError: the address, the certificate or a key cannot be used.
            PrivacyError: another process uses the state folder, or the record was tampered with.
            StorageError: the record cannot be read.
        """
        require_free(parse_address(address, name="the address of the helper", listening=True))
        key = helper_identity(identity)
        self.identity = identity_text(key)
        """As devices and the leader pin it."""
        self._token = None if token is None else read_token(token)
        require_pair(certificate, private_key)
        credentials = grpc.ssl_server_credentials([(private_key.read_bytes(), certificate.read_bytes())])
        self._answered = AnsweredRounds(state)
        self._rounds = HelperRounds(key, self._answered, least_clients=least_clients)
        self._server = grpc.server(ThreadPoolExecutor(_THREADS, "helper"), options=_OPTIONS)
        methods = {"Begin": self._begin, "Take": self._take, "Total": self._total}
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(self._answering(of)) for name, of in methods.items()
        }
        own = grpc.method_handlers_generic_handler(messages.SERVICE, handlers)
        self._server.add_generic_rpc_handlers((own,))
        self.port = int(self._server.add_secure_port(address, credentials))
        self._server.start()

    def close(self) -> None:
        """Stop; rounds that are open are lost. A call that does not end is not waited for."""
        self._server.stop(_FAREWELL_SECONDS).wait(10 * _FAREWELL_SECONDS)
        self._answered.close()

    def __enter__(self) -> "RunningHelper":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answering(self, method: Callable[[bytes], bytes]) -> Callable[[bytes, Any], bytes]:
        def answer(request: bytes, context: Any) -> bytes:
            try:
                self._require_leader(context)
                return method(request)
            except RefusedError as error:
                code = error.code
            except FedboardError:
                code = Refusal.INTERNAL
            context.abort(messages.REFUSED, code.value)
            raise AssertionError("gRPC has ended the call")

        return answer

    def _require_leader(self, context: Any) -> None:
        if self._token is None:
            return
        told = [value for name, value in context.invocation_metadata() if name == messages.TOKEN_HEADER]
        if len(told) != 1 or not hmac.compare_digest(str(told[0]).encode(), self._token.encode()):
            raise RefusedError(Refusal.NOT_ALLOWED)

    def _begin(self, request: bytes) -> bytes:
        asked = unpacked(request, Begin)
        try:
            rules = TwoServerRules.from_parameters(asked.parameters)
        except InputError:
            raise RefusedError(Refusal.BAD_PROTOCOL) from None
        return messages.packed(self._rounds.begin(asked.about, rules, asked.board))

    def _take(self, request: bytes) -> bytes:
        asked = unpacked(request, Take)
        self._rounds.take(asked.about, asked.client, asked.part)
        return b""

    def _total(self, request: bytes) -> bytes:
        asked = unpacked(request, Total)
        return messages.total_to_bytes(self._rounds.total(asked.about, asked.clients))
