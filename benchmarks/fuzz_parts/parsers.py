"""Every parser that reads what somebody else wrote, each with messages that the product made."""

from fuzz_parts.targets.accounts import account_parsers
from fuzz_parts.targets.boards import board_parsers
from fuzz_parts.targets.configurations import configuration_parsers
from fuzz_parts.targets.direct import direct_parsers
from fuzz_parts.targets.flower import flower_parsers
from fuzz_parts.targets.logs import log_parsers
from fuzz_parts.targets.page import page_parsers
from fuzz_parts.targets.ratings import ratings_parsers
from fuzz_parts.targets.sessions import session_parsers
from fuzz_parts.targets.sockets import socket_parsers
from fuzz_parts.targets.wire import wire_parsers
from fuzz_parts.trials import Parser


def all_parsers() -> list[Parser]:
    """Of both sides."""
    return [
        *wire_parsers(),
        *flower_parsers(),
        *session_parsers(),
        *socket_parsers(),
        *direct_parsers(),
        *board_parsers(),
        *page_parsers(),
        *log_parsers(),
        *configuration_parsers(),
        *ratings_parsers(),
        *account_parsers(),
    ]
