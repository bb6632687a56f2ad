"""The keys of a fleet: made, held against each other, and those that devices are handed when they join."""

import ssl
from collections.abc import Sequence
from contextlib import suppress
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
    keys, renew = KeysFolder.of(settings), f"fedboard keys renew {settings.keys}"
    for path, remedy in (
        (keys.certificate, renew),
        (keys.key, renew),
        (keys.authority, "fedboard keys new authority"),
        (keys.questions, "fedboard keys new questions"),
        (keys.boards[0], "fedboard keys new boards"),
    ):
        try:
            path.read_bytes()
        except OSError as error:
            raise InputError(
                f"{path} cannot be read ({error.strerror}); make all keys of a new fleet with: "
                f"fedboard fleet init, or this one with: {remedy}"
            ) from error
    try:
        require_pair(keys.certificate, keys.key)
    except InputError as error:
        raise InputError(f"{error}; make a certificate with: {renew}") from error
    require_current(
        keys.authority.read_bytes(),
        keys.authority,
        remedy="make a new authority with: fedboard keys new authority, and give it to every device",
    )
    _shake_hands(keys, settings.network.reached.host, renew)
    question_key, board_key = QuestionKey.read(keys.questions), SigningKey.read(*keys.boards)
    if keys.roots is None:
        return
    chain = RootFolder(keys.roots).chain()
    role = chain[-1].roles.get(QUESTIONS) if chain else None
    if role is not None and bytes.fromhex(question_key.public.hex) not in role.keys:
        raise InputError(
            f"{keys.questions}: version {chain[-1].version} of the root does not name this key: it was replaced, "
            "and devices refuse what it signs; give the key that took its place"
        )
    try:
        Signer(key=board_key, run="", chain=chain_for(Mirror(keys.roots / "absent"), keys.roots))
    except InputError as error:
        raise InputError(f"{keys.roots}: {error}") from error


def _shake_hands(keys: KeysFolder, host: str, renew: str) -> None:
    """TLS in memory, by the authority that devices have.

    Raises:
        InputError: they would not trust the server.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys.certificate, keys.key)
    try:
        client = ssl.create_default_context(cafile=str(keys.authority))
    except ssl.SSLError as error:
        raise InputError(
            f"{keys.authority} holds no certificate in PEM form; it is the authority.pem that signed the server's "
            "certificate"
        ) from error
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=host)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for side in (asking, answering, asking):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLError as error:
        reason = (error.reason or "refused by OpenSSL").lower()
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = error.verify_message
        raise InputError(
            f"{keys.authority} does not vouch for {keys.certificate} at {host}, the network.address of devices "
            f"({reason.rstrip('.').replace('_', ' ')}); make a new certificate with: {renew} --name {host}"
        ) from error
