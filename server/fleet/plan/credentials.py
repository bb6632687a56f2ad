"""Whether the files that a fleet's server is known by go together: certificate, its key, authority, signing key."""

import ssl
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError
from fedboard.common.keys.root_folder import RootFolder
from fedboard.common.keys.roots import QUESTIONS
from fedboard.common.wire.certificate_dates import require_current
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.sections import BoardSection, NetworkSection
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.publishing.mirror import Mirror, Signer, chain_for, require_days
from fedboard.server.publishing.signing import SigningKey

_OWN_ADDRESS = "127.0.0.1"
"""The parts of the server reach each other by it."""


def require_credentials(settings: FleetSettings) -> None:
    """Load all of them, and shake hands with ourselves as the proxy and the devices will.

    Raises:
        InputError: a file cannot be read or is of another kind, one does not belong to the other, or the log of
            boards cannot be written to.
    """
    network = settings.network
    server = _server_side(network)
    authority = network.authority
    require_current(
        _content("network.authority", authority, "authority"),
        authority,
        remedy="make a new authority with: fedboard keys authority, and give it to every device",
    )
    try:
        client = ssl.create_default_context(cafile=str(authority))
    except ssl.SSLError as error:
        raise InputError(
            f"network.authority: {authority} holds no certificate in PEM form; it is the authority.pem that "
            "signed the server's certificate"
        ) from error
    try:
        _shake_hands(server, client)
    except ssl.SSLError as error:
        raise InputError(
            f"network.authority: {authority} does not vouch for {network.certificate} at {_OWN_ADDRESS} "
            f"({_reason(error)}); make a new certificate with: fedboard keys server"
        ) from error
    _require_question_key(network.question_key, settings.board.roots)
    if settings.board.enabled and settings.board.signing_key is not None:
        _require_signing_key(settings.board, settings.board.signing_key)
    _require_witnesses(settings.board)


def _server_side(network: NetworkSection) -> ssl.SSLContext:
    content = _content("network.certificate", network.certificate, "server")
    try:
        x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise InputError(
            f"network.certificate: {network.certificate} is no certificate in PEM form; "
            "it is the server.pem of fedboard keys server"
        ) from error
    require_current(content, network.certificate, remedy="make a new one with: fedboard keys server")
    content = _content("network.key", network.key, "server")
    try:
        load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(
            f"network.key: {network.key} is no private key without a passphrase in PEM form; "
            "it is the server.key of fedboard keys server"
        ) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(network.certificate, network.key)
    except ssl.SSLError as error:
        raise InputError(
            f"network.key: {network.key} is not the key of {network.certificate} ({_reason(error)}); give the "
            "two files that fedboard keys server made together"
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


def _require_signing_key(board: BoardSection, path: Path) -> None:
    _content("board.signing_key", path, "board")
    try:
        key = SigningKey.read(path, *board.more_signing_keys)
    except InputError as error:
        raise InputError(f"board.signing_key: {error}; make one with: fedboard keys board") from error
    require_days("board.manifest_days", board.manifest_days)
    if board.roots is None:
        return
    try:
        Signer(
            key=key,
            run="",
            days=board.manifest_days,
            chain=chain_for(Mirror(board.roots / "absent"), board.roots),
        )
    except InputError as error:
        raise InputError(f"board.roots: {error}") from error


def _require_witnesses(board: BoardSection) -> None:
    try:
        Witnesses.of(board.witnesses, board.cosignatures)
    except InputError as error:
        raise InputError(f"board.witnesses: {error}") from error


def _require_question_key(path: Path, roots: Path | None) -> None:
    _content("network.question_key", path, "questions")
    try:
        key = QuestionKey.read(path)
    except InputError as error:
        raise InputError(f"network.question_key: {error}; make one with: fedboard keys questions") from error
    chain = [] if roots is None else RootFolder(roots).chain()
    role = chain[-1].roles.get(QUESTIONS) if chain else None
    if role is not None and bytes.fromhex(key.public.hex) not in role.keys:
        raise InputError(
            f"network.question_key: version {chain[-1].version} of the root does not name {path}: it was replaced, "
            "and devices refuse what it signs; give the key that took its place"
        )


def _content(key: str, path: Path, made_by: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{key}: {path} cannot be read ({error.strerror}); make it with: fedboard keys {made_by}"
        ) from error
