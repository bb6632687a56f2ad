"""The authority that vouches for the certificate of a server."""

from pathlib import Path

from cryptography import x509

from fedboard.common.errors import InputError
from fedboard.common.wire.certificate_dates import require_current

OUT_OF_DATE = ("certificate has expired", "certificate is not yet valid")
"""What OpenSSL and BoringSSL say of a certificate that would be trusted on another day."""
NOT_VOUCHED_FOR = ("certificate_verify_failed", "hostname verification", "peer certificate")
"""What gRPC writes of a certificate that it does not take; it has no status of its own for that."""
_WANTED = (
    "--authority, authority of [server] and ca_certificate of [boards] name the certificate of an authority "
    "in PEM form"
)


def read_authority(path: Path) -> str:
    """Read the certificate of an authority, or several.

    Args:
        path: PEM file.

    Returns:
        Its text.

    Raises:
        InputError: no certificate can be read there, or it has expired.
    """
    try:
        content = path.read_text(encoding="ascii")
        x509.load_pem_x509_certificates(content.encode("ascii"))
    except ValueError as error:
        raise InputError(f"{path}: {_WANTED}; this file is none") from error
    except OSError as error:
        raise InputError(f"{path}: {_WANTED}; this file cannot be read ({error.strerror})") from error
    require_current(content.encode("ascii"), path, remedy="ask whoever runs the server for its new authority")
    return content
