"""Whether the keys of a fleet's server go together: certificate, its key, authority, signing keys."""

import ssl
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fedboard.common.errors import InputError
from fedboard.common.keys.roots import QUESTIONS, RootFolder
from fedboard.common.wire.certificate_dates import require_current
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import KeysFolder
from fedboard.server.publishing.mirror import Mirror, Signer, chain_for
from fedboard.server.publishing.signing import SigningKey

_OWN_ADDRESS = "127.0.0.1"
"""The operator's tools reach the server by it."""


def require_credentials(settings: FleetSettings) -> None:
    """Load all of them, and shake hands with ourselves as the devices will.

    Raises:
        InputError: a file cannot be read or is of another kind, or one does not belong to the other.
    """
    keys = KeysFolder.of(settings)
    server = _server_side(keys)
    require_current(
        _content(keys.authority, "fedboard keys new authority"),
        keys.authority,
        remedy="make a new authority with: fedboard keys new authority, and give it to every device",
    )
    try:
        client = ssl.create_default_context(cafile=str(keys.authority))
    except ssl.SSLError as error:
        raise InputError(
            f"{keys.authority} holds no certificate in PEM form; it is the authority.pem that signed the server's "
            "certificate"
        ) from error
    try:
        _shake_hands(server, client)
    except ssl.SSLError as error:
        raise InputError(
            f"{keys.authority} does not vouch for {keys.certificate} at {_OWN_ADDRESS} ({_reason(error)}); make a "
            f"new certificate with: fedboard keys renew {keys.path}"
        ) from error
    _require_question_key(keys)
    _require_board_keys(keys)


def _server_side(keys: KeysFolder) -> ssl.SSLContext:
    remedy = f"fedboard keys renew {keys.path}"
    content = _content(keys.certificate, remedy)
    try:
        x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise InputError(
            f"{keys.certificate} is no certificate in PEM form; make the server's with: {remedy}"
        ) from error
    require_current(content, keys.certificate, remedy=f"make a new one with: {remedy}")
    try:
        load_pem_private_key(_content(keys.key, remedy), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"{keys.key} is no private key without a passphrase in PEM form; it is the one that server.pem is for"
        ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(keys.certificate, keys.key)
    except ssl.SSLError as error:
        raise InputError(
            f"{keys.key} is not the key of {keys.certificate} ({_reason(error)}); make a certificate for it with: "
            f"{remedy}"
        ) from error
    return context


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """TLS in memory.

    Raises:
        ssl.SSLError: the client does not trust the server.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=_OWN_ADDRESS)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering, asking):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.rstrip(".")
    return (error.reason or "refused by OpenSSL").replace("_", " ").lower()


def _require_board_keys(keys: KeysFolder) -> None:
    _content(keys.boards[0], "fedboard keys new boards")
    key = SigningKey.read(*keys.boards)
    if keys.roots is None:
        return
    try:
        Signer(key=key, run="", chain=chain_for(Mirror(keys.roots / "absent"), keys.roots))
    except InputError as error:
        raise InputError(f"{keys.roots}: {error}") from error


def _require_question_key(keys: KeysFolder) -> None:
    _content(keys.questions, "fedboard keys new questions")
    key = QuestionKey.read(keys.questions)
    chain = [] if keys.roots is None else RootFolder(keys.roots).chain()
    role = chain[-1].roles.get(QUESTIONS) if chain else None
    if role is not None and bytes.fromhex(key.public.hex) not in role.keys:
        raise InputError(
            f"{keys.questions}: version {chain[-1].version} of the root does not name this key: it was replaced, "
            "and devices refuse what it signs; give the key that took its place"
        )


def _content(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); make all keys of a new fleet with: fedboard fleet init, or "
            f"this one with: {remedy}"
        ) from error
