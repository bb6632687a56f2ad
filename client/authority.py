"""The authority that vouches for the certificate of a server."""

import ssl
from pathlib import Path

from fedboard.common.errors import InputError


def read_authority(path: Path) -> str:
    """Read the certificate of an authority, or several.

    Args:
        path: PEM file.

    Returns:
        Its text.

    Raises:
        InputError: no certificate can be read there.
    """
    try:
        content = path.read_text(encoding="ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content)
    except (OSError, ValueError) as error:  # among them ssl.SSLError
        readable = isinstance(error, ssl.SSLError | ValueError)
        found = "this file is none" if readable else f"this file cannot be read ({error.strerror})"
        raise InputError(
            f"{path}: --authority and ca_certificate name the certificate of an authority in PEM form; "
            f"{found}"
        ) from error
    return content


__all__ = ["read_authority"]
