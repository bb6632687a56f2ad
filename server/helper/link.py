"""The leader's way to a helper in another process: gRPC over TLS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import grpc

from fedboard.common.arrays import ResidueArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import parse_address
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.two_server.helper import HelperPart, RoundKey, TwoServerRules
from fedboard.server.helper import messages
from fedboard.server.helper.messages import MOST_BYTES, TOKEN_HEADER, Begin, Message, Take, Total, read_token

_Reply = TypeVar("_Reply", bound=Message)
_SECONDS = 60.0
_TIMES_FOR_TOTAL = 10
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
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
        self._metadata = () if token is None else ((TOKEN_HEADER, read_token(token)),)
        self._seconds = seconds
        self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(roots), options=_OPTIONS)

    def about(self, board: Board) -> "RemoteHelper":
        """The helper for the round that asks about this board."""
        return RemoteHelper(self, bytes(board.to_bytes()))

    def ask(self, message: Message, reply: type[_Reply], *, times: int = 1) -> _Reply:
        """One question, whose answer may take so many times as long as others.

        Raises:
            RefusedError: with the helper's code, or no such reply comes, or nobody who is vouched for answers.
        """
        method = f"/{messages.SERVICE}/{type(message).__name__}"
        call: Callable[..., bytes] = self._channel.unary_unary(method)
        try:
            content = call(message.to_bytes(), timeout=times * self._seconds, metadata=self._metadata)
        except grpc.RpcError:
            raise RefusedError(Refusal.UNREACHABLE) from None
        return messages.read(content, reply)

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
        key = self.link.ask(Begin(about, dict(rules.parameters), self.board), messages.Key)
        return RoundKey(key=key.key, identity=key.identity, signature=key.signature)

    def take(self, about: bytes, client: str, part: HelperPart) -> None:
        """Hand over one client's part."""
        self.link.ask(Take.of(about, client, part), messages.Taken)

    def total(self, about: bytes, clients: Sequence[str]) -> ResidueArray:
        """Ask for the total, once: if the answer is lost the round is."""
        return self.link.ask(Total(about, tuple(clients)), messages.Share, times=_TIMES_FOR_TOTAL).residues
