"""Every parser that reads what somebody else wrote, each with messages that the product made."""

from fleets.fuzz.targets.accounts import account_parsers
from fleets.fuzz.targets.boards import board_parsers
from fleets.fuzz.targets.configurations import configuration_parsers
from fleets.fuzz.targets.direct import direct_parsers
from fleets.fuzz.targets.page import page_parsers
from fleets.fuzz.targets.ratings import ratings_parsers
from fleets.fuzz.targets.sessions import session_parsers
from fleets.fuzz.targets.sockets import socket_parsers
from fleets.fuzz.targets.wire import wire_parsers
from fleets.fuzz.trials import Parser


def all_parsers() -> list[Parser]:
    """Of both sides."""
    return [
        *wire_parsers(),
        *session_parsers(),
        *socket_parsers(),
        *direct_parsers(),
        *board_parsers(),
        *page_parsers(),
        *configuration_parsers(),
        *ratings_parsers(),
        *account_parsers(),
    ]
