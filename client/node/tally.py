"""What a device counts and logs of its own work, and of its trouble with the server."""

import logging
from dataclasses import dataclass, field
from enum import StrEnum

from fedboard.common.wire.refusals import Refusal

_log = logging.getLogger(__name__)


class Trouble(StrEnum):
    """Why a node gets no work; the only words that are logged about it."""

    UNREACHABLE = "unreachable"
    """Nobody answers at the address, or somebody without a certificate of the authority."""
    EXPIRED = "certificate-expired"
    """The server's certificate has expired, or is not valid yet: of this machine's clock or of that one's."""
    NOT_ADMITTED = "not-admitted"
    """The key is not registered, or the clocks are minutes apart."""
    TAKEN = "taken"
    """Another process with this key has called since, or the clock of this machine went back."""
    ROUND_OVER = "round-over"
    """The server no longer waits for the answer."""
    REFUSED = "refused"
    """The server answers with an error, or with what is no answer."""


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Bytes of bodies, without headers and TLS."""

    sent: int = 0
    received: int = 0


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a node did since it started."""

    asked: int = 0
    answered: int = 0
    """Replies that the server took, also refusals and failures."""
    refused: int = 0
    """Questions that the device answered with a code alone; see ``refuse``."""
    failed: int = 0
    """Messages whose app raised; answered with a code."""
    undelivered: int = 0
    """Replies that the server did not take."""
    codes: set[Refusal] = field(default_factory=set)
    """Why it refused."""
    traffic: Traffic = field(default_factory=Traffic)
    """With the server."""

    @property
    def given(self) -> int:
        """Questions that got an answer of this device."""
        return self.asked - self.refused - self.failed

    def refuse(self, code: Refusal) -> None:
        """Count a refusal; each code is logged once."""
        self.refused += 1
        if code not in self.codes:
            _log.warning("refused: %s; later ones are counted (`fedboard status`)", code.value)
            self.codes.add(code)
