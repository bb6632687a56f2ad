"""The keys of a fleet: made, held against each other, and those that devices are handed when they join."""

import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.ed25519_keys import write_pair
from fedboard.common.boards.roots import QUESTIONS, Role, RootFolder
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.messages.certificate_dates import require_current
from fedboard.common.messages.enrolment import LARGEST_INTRODUCTION, Introduction
from fedboard.common.messages.signing import QuestionKey
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder
from fedboard.server.operating.drafting import USUAL_DAYS, drafted, signed_by
from fedboard.server.publishing.mirror import Mirror, Signer, chain_for
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.tls import make_authority, make_server_certificate, require_pair

HOLDER = "holder.key"
"""Signs who may sign: whoever takes it off this machine has made the first of the offline holders."""


def make_keys(folder: Path, *, name: str, hosts: Sequence[str]) -> KeysFolder:
    """Make every key that a fleet's own machine needs, and its first root, which names them.

    Args:
        folder: new or empty of keys.
        name: of the fleet.
        hosts: names and addresses that devices use.

    Raises:
        InputError: there are keys already; none is ever overwritten.
    """
    keys = KeysFolder(folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(
            f"{folder}: there are files already, and no key is ever overwritten; choose another one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    make_authority(keys.authority, keys.authority_key, name=name)
    make_server_certificate(
        keys.certificate, keys.key, authority=keys.authority, authority_key=keys.authority_key, names=hosts
    )
    holder, boards, questions = (Ed25519PrivateKey.generate() for _ in range(3))
    for key, place in ((holder, folder / HOLDER), (boards, keys.boards[0]), (questions, keys.questions)):
        write_pair(key, private=place, public=place.with_suffix(".pub"))
    roles = {"root": _alone(holder), "boards": _alone(boards), "questions": _alone(questions)}
    root = signed_by(drafted(roles, version=1, days=USUAL_DAYS), [holder], before=None)
    roots = RootFolder(folder / "roots")
    roots.folder.mkdir()
    write_atomically(roots.path(1), root)
    return keys


def _alone(key: Ed25519PrivateKey) -> Role:
    return Role((key.public_key().public_bytes_raw(),), 1)


def introduction_of(settings: FleetSettings) -> bytes:
    """The bytes that are handed over, and that an invitation names by their digest.

    Raises:
        InputError: a key or certificate cannot be read, or the authority's file is too large to be one.
    """
    keys, promise = KeysFolder.of(settings), settings.promise
    chain = [] if keys.roots is None else RootFolder(keys.roots).chain()
    try:
        authority = keys.authority.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{keys.authority}: the authority's certificate cannot be read as PEM text"
        ) from error
    content = Introduction(
        run=settings.name,
        task=settings.task.algorithm,
        protocol=settings.protocol.name,
        epsilon=promise.epsilon,
        delta=promise.delta,
        adjacency=promise.adjacency,
        authority=authority,
        question_key=QuestionKey.read(keys.questions).public.hex,
        board_key=SigningKey.read(*keys.boards).public.raw.hex(),
        root=chain[-1].content.decode("utf-8")
        if chain and chain[-1].content
        else None,  # the newest that counts
    ).to_bytes()
    if len(content) > LARGEST_INTRODUCTION:
        raise InputError(f"{keys.authority} is too large for a certificate")
    return content


def require_credentials(settings: FleetSettings) -> None:
    """Load all of them, and shake hands with ourselves as the devices will, by the name that they use.

    Raises:
        InputError: a file cannot be read or is of another kind, or one does not belong to the other or to the name.
    """
    keys, host = KeysFolder.of(settings), settings.network.reached.host
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
        _shake_hands(server, client, host)
    except ssl.SSLError as error:
        raise InputError(
            f"{keys.authority} does not vouch for {keys.certificate} at {host}, the network.address of devices "
            f"({_reason(error)}); make a new certificate with: fedboard keys renew {keys.path} --name {host}"
        ) from error
    _content(keys.questions, "fedboard keys new questions")
    question_key = QuestionKey.read(keys.questions)
    chain = [] if keys.roots is None else RootFolder(keys.roots).chain()
    role = chain[-1].roles.get(QUESTIONS) if chain else None
    if role is not None and bytes.fromhex(question_key.public.hex) not in role.keys:
        raise InputError(
            f"{keys.questions}: version {chain[-1].version} of the root does not name this key: it was replaced, "
            "and devices refuse what it signs; give the key that took its place"
        )
    _content(keys.boards[0], "fedboard keys new boards")
    board_key = SigningKey.read(*keys.boards)
    try:
        if keys.roots is not None:
            Signer(key=board_key, run="", chain=chain_for(Mirror(keys.roots / "absent"), keys.roots))
    except InputError as error:
        raise InputError(f"{keys.roots}: {error}") from error


def _server_side(keys: KeysFolder) -> ssl.SSLContext:
    remedy = f"fedboard keys renew {keys.path}"
    for place in (keys.certificate, keys.key):
        _content(place, remedy)
    try:
        require_pair(keys.certificate, keys.key)
    except InputError as error:
        raise InputError(f"{error}; make a certificate with: {remedy}") from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    return context


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """TLS in memory.

    Raises:
        ssl.SSLError: the client does not trust the server.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
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


def _content(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); make all keys of a new fleet with: fedboard fleet init, or "
            f"this one with: {remedy}"
        ) from error
