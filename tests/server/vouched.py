"""A server's certificate, and the authority that vouches for it."""

from collections.abc import Sequence
from pathlib import Path

from fedboard.server.tls import make_authority, make_server_certificate


def vouched_pair(
    folder: Path, *, authority: str = "authority", pair: str = "server", names: Sequence[str] = ()
) -> Path:
    """Write ``authority.pem`` and ``.key``, and ``server.pem`` and ``.key``, for this machine and these names."""
    own, key = folder / f"{authority}.pem", folder / f"{authority}.key"
    make_authority(own, key, name=authority)
    make_server_certificate(
        folder / f"{pair}.pem", folder / f"{pair}.key", authority=own, authority_key=key, names=names
    )
    return folder
