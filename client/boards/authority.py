"""The authority that vouches for the certificate of a server."""

import ssl
from pathlib import Path

from fedboard.common.errors import InputError

_WANTED = "--authority and ca_certificate name the certificate of an authority in PEM form"


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
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"{path}: {_WANTED}; this file is none") from error
    except OSError as error:
        raise InputError(f"{path}: {_WANTED}; this file cannot be read ({error.strerror})") from error
    return content


__all__ = ["read_authority"]
