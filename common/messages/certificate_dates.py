"""Whether X.509 certificates are valid today: "not trusted" alone sends people looking in the wrong place.

The authority that vouches for the certificate of a server.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from fedboard.common.errors import InputError


def require_current(content: bytes, place: Path, *, remedy: str, now: datetime | None = None) -> None:
    """Refuse certificates of which none is valid today.

    Args:
        content: one or several in PEM form; what is none of the kind is not looked at here.
        place: where they are from, for the message.
        remedy: what to do.
        now: None for the present.

    Raises:
        InputError: the last one has expired, or is not valid yet; says since or from when.
    """
    try:
        found = x509.load_pem_x509_certificates(content)
    except ValueError:
        return
    problem = _problem(found, now or datetime.now(UTC))
    if problem is not None:
        raise InputError(f"{place}: this certificate {problem}; {remedy}")


def _problem(certificates: Sequence[x509.Certificate], now: datetime) -> str | None:
    if any(held.not_valid_before_utc <= now <= held.not_valid_after_utc for held in certificates):
        return None
    ended = [held.not_valid_after_utc for held in certificates if held.not_valid_after_utc < now]
    if ended:
        return f"expired on {max(ended):%Y-%m-%d %H:%M} UTC"
    begins = min(held.not_valid_before_utc for held in certificates)
    return f"is not valid before {begins:%Y-%m-%d %H:%M} UTC; is the clock of this machine right?"


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
