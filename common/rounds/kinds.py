"""What kinds of messages a device gets, whoever carries them."""

from typing import Final

ROUND: Final = "query.round"
"""A round that is one question."""
STEP: Final = "query.step"
"""One step of a session."""
HELLO: Final = "query.hello"
"""A greeting: empty, and so is what comes back."""
