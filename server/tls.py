"""A fleet's own authority and the certificate that its server shows: P-384, X.509.

Devices trust this authority and no other, so nobody outside the fleet can vouch for a false server.
"""

import ipaddress
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedboard.common.boards.ed25519_keys import write_new
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.messages.certificate_dates import require_current

_ALWAYS = ("localhost", "127.0.0.1")
_AUTHORITY_DAYS, _SERVER_DAYS = 3650, 825
_NEW_SERVER = "make a new one with: fedboard keys renew"
_CLOCKS_APART = timedelta(days=1)


def make_authority(certificate: Path, key: Path, *, name: str) -> None:
    """Make the authority: its certificate for everybody, its key for the one place that signs.

    Args:
        certificate: PEM file to write.
        key: PEM file to write, mode 0600. Keep it off the server.
        name: of the fleet.

    Raises:
        InputError: one of the files is there already.
    """
    private = ec.generate_private_key(ec.SECP384R1())
    subject = _named(f"{name} authority")
    builder = _builder(subject, subject, private.public_key(), days=_AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    signed = builder.sign(private, hashes.SHA384())
    write_new(
        secret={key: _pem_key(private)},
        public={certificate: signed.public_bytes(serialization.Encoding.PEM)},
    )


def make_server_certificate(
    certificate: Path, key: Path, *, authority: Path, authority_key: Path, names: Sequence[str]
) -> None:
    """Make the server's certificate, or another one for the same key, of which devices notice nothing.

    Args:
        certificate: PEM file; one that is there is replaced.
        key: PEM file, mode 0600; made if it is missing, and never replaced.
        authority: PEM file of the authority's certificate.
        authority_key: its key.
        names: host names and addresses that devices use, to which ``localhost`` and 127.0.0.1 are added; those of
            the present certificate if there are none.

    Raises:
        InputError: the authority or the key cannot be read.
    """
    private: object = ec.generate_private_key(ec.SECP384R1())
    if key.exists():
        try:
            private = serialization.load_pem_private_key(key.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{key}: no private key without a passphrase can be read there") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise InputError(f"{key}: the server's key is an EC key; move this one away, and a new one is made")
    issuer, issuer_key = _read_authority(authority, authority_key)
    all_names = list(dict.fromkeys([*(names or names_of(certificate)), *_ALWAYS]))
    builder = _builder(_named(all_names[0]), issuer.subject, private.public_key(), days=_SERVER_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    alternatives = x509.SubjectAlternativeName([_alternative(name) for name in all_names])
    builder = builder.add_extension(alternatives, critical=False)
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    signed = builder.add_extension(issued_by, critical=False).sign(issuer_key, hashes.SHA384())
    if not key.exists():
        write_new(secret={key: _pem_key(private)})
    write_atomically(certificate, signed.public_bytes(serialization.Encoding.PEM))


def names_of(certificate: Path) -> list[str]:
    """Host names and addresses that a certificate is valid for; none where it cannot be read."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def require_pair(certificate: Path, key: Path) -> None:
    """Check that a server can use a certificate and its key.

    Raises:
        InputError: one cannot be read, is none, the certificate has expired, or they do not belong together.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        problem = "not a certificate and its private key in PEM form, without a passphrase"
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = "this private key belongs to another certificate"
        raise InputError(f"{certificate} and {key}: {problem}") from error
    except OSError as error:
        raise InputError(
            f"{certificate} and {key}: certificate and private key cannot both be read ({error.strerror})"
        ) from error
    require_current(_first(certificate.read_bytes()), certificate, remedy=_NEW_SERVER)


def _first(chain: bytes) -> bytes:
    """The server's own certificate, which comes first in its chain."""
    end = b"-----END CERTIFICATE-----"
    return chain.partition(end)[0] + end + b"\n"


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_APART)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read_authority(certificate: Path, key: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        issuer = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except OSError as error:
        raise InputError(
            f"{error.filename}: the authority cannot be read there ({error.strerror}); "
            "make one with: fedboard keys new authority"
        ) from error
    except ValueError as error:
        raise InputError(f"{certificate} and {key}: not a certificate and its key in PEM form") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != issuer.public_key():
        raise InputError(f"{key} is not the key of {certificate}")
    require_current(
        certificate.read_bytes(),
        certificate,
        remedy="make a new authority with: fedboard keys new authority, and give it to every device",
    )
    return issuer, private
