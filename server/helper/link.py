"""The leader's way to a helper in another process: gRPC over TLS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from fedboard.common.arrays import ResidueArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import parse_address
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.two_server.helper import HelperPart, RoundKey, TwoServerRules
from fedboard.server.helper import messages
from fedboard.server.helper.messages import Begin, Take, Total

_SECONDS = 60.0
_TIMES_FOR_TOTAL = 10
_OPTIONS = (
    ("grpc.max_receive_message_length", messages.MOST_BYTES),
    ("grpc.max_send_message_length", messages.MOST_BYTES),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.enable_http_proxy", 0),
)


class HelperLink:
    """A connection to a helper, for all rounds of a run."""

    def __init__(
        self, address: str, *, authority: Path, token: Path | None = None, seconds: float = _SECONDS
    ) -> None:
        """Connect when the first round needs it.

        Args:
            address: ``host:port``.
            authority: PEM file of the certificate authority that vouches for the helper's name.
            token: file with the secret that the helper asks of its leader; None: it asks for none.
            seconds: until a helper that does not answer counts as away; a total may take ten times as long.

        Raises:
            InputError: the address is none, or a file cannot be read.
        """
        parse_address(address, name="the helper's address")
        try:
            roots = authority.read_bytes()
        except OSError as error:
            raise InputError(
                f"{authority}: the helper's authority cannot be read there ({error.strerror})"
            ) from error
        self._metadata = () if token is None else ((messages.TOKEN_HEADER, messages.read_token(token)),)
        self._seconds = seconds
        self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots), options=_OPTIONS)

    def about(self, board: Board) -> "RemoteHelper":
        """The helper for the round that asks about this board."""
        return RemoteHelper(self, bytes(board.to_bytes()))

    def ask(self, request: messages.Request, *, times: int = 1) -> bytes:
        """The reply to one request, which may take so many times as long as others.

        Raises:
            RefusedError: with the helper's code, or nobody who is vouched for answers.
        """
        call: Callable[..., bytes] = self._channel.unary_unary(
            f"/{messages.SERVICE}/{type(request).__name__}"
        )
        try:
            return call(messages.packed(request), timeout=times * self._seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise RefusedError(_code(error)) from None

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()


@dataclass(frozen=True, slots=True)
class RemoteHelper:
    """The helper in one round: ``fedboard.common.protocols.two_server.helper.Helper``."""

    link: HelperLink
    board: bytes

    def begin(self, about: bytes, requests: Sequence[Request], rules: TwoServerRules) -> RoundKey:
        """Send the board; the helper reads the requests off it itself."""
        content = self.link.ask(Begin(about, dict(rules.parameters), self.board))
        return messages.unpacked(content, RoundKey)

    def take(self, about: bytes, client: str, part: HelperPart) -> None:
        """Hand over one client's part."""
        self.link.ask(Take.of(about, client, part))

    def total(self, about: bytes, clients: Sequence[str]) -> ResidueArray:
        """Ask for the total, once: if the answer is lost the round is."""
        content = self.link.ask(Total(about, tuple(clients)), times=_TIMES_FOR_TOTAL)
        return messages.total_from_bytes(content)


def _code(error: grpc.RpcError) -> Refusal:
    """What the helper refuses with; anything else counts as nobody there."""
    if error.code() is not messages.REFUSED or error.details() not in set(Refusal):
        return Refusal.UNREACHABLE
    return Refusal(error.details())
