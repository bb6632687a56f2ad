"""A message that is signed when it is sent, and anew only where it has to last longer."""

import time
from dataclasses import dataclass, field

from fedboard.common.wire.signing import QuestionKey

_SLACK_SECONDS = 2.0
"""So that sending a message again is no reason; the allowance for clocks is far larger."""


@dataclass(slots=True, kw_only=True)
class SignedMessage:
    """A question, or a step and the board beside it. The same bytes each time, as long as they last: Flower stores
    equal bytes once.
    """

    key: QuestionKey
    message: bytes
    beside: bytes | None = None
    _content: bytes = field(default=b"", init=False)
    _until: float = field(default=float("-inf"), init=False)

    def lasting(self, seconds: float) -> bytes:
        """As it travels, to be answered for so long from now on."""
        until = time.monotonic() + seconds
        if until > self._until + _SLACK_SECONDS:
            self._content = self.key.sign(self.message, seconds=seconds, beside=self.beside)
            self._until = until
        return self._content
