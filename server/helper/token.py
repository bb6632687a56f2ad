"""The secret by which a helper knows its leader, in a file on both sides."""

import os
from pathlib import Path

from fedboard.common.errors import InputError

TOKEN_HEADER = "fedboard-leader"
_LEAST = 32


def read_token(path: Path) -> str:
    """Read it.

    Args:
        path: one line of at least 32 letters and digits, which only its owner can read.

    Raises:
        InputError: no such file, others may read it, or it is too short or of other characters.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
        shared = os.name == "posix" and path.stat().st_mode & 0o077
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: no token can be read there ({error})") from error
    if shared:
        raise InputError(f"{path}: others can read this token; take their rights away: chmod 600 {path}")
    if len(token) < _LEAST or not token.isalnum():
        raise InputError(
            f"{path}: a token is one line of at least {_LEAST} letters and digits; make one with: "
            "openssl rand -hex 32"
        )
    return token
