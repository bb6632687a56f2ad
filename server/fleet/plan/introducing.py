"""What a fleet's server hands to devices that join, from its settings."""

from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.common.keys.roots import RootFolder
from fedboard.common.wire.enrolment import LARGEST_INTRODUCTION, Introduction
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import KeysFolder
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.tls import names_of


def introduction_of(settings: FleetSettings) -> bytes:
    """The bytes that are handed over, and that an invitation names by their digest.

    Raises:
        InputError: a key or certificate cannot be read, or the authority's file is too large to be one.
    """
    keys, promise = KeysFolder.of(settings), settings.promise
    content = Introduction(
        run=settings.name,
        task=settings.task.algorithm,
        protocol=settings.protocol.name,
        epsilon=promise.epsilon,
        delta=promise.delta,
        adjacency=promise.adjacency,
        authority=_text(keys.authority),
        question_key=QuestionKey.read(keys.questions).public.hex,
        board_key=SigningKey.read(*keys.boards).public.raw.hex(),
        root=_root(keys.roots),
    ).to_bytes()
    if len(content) > LARGEST_INTRODUCTION:
        raise InputError(f"{keys.authority} is too large for a certificate")
    return content


def _root(folder: Path | None) -> str | None:
    """The newest root that counts."""
    chain = [] if folder is None else RootFolder(folder).chain()
    content = chain[-1].content if chain else None
    return None if content is None else content.decode("utf-8")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the authority's certificate cannot be read as PEM text") from error


def require_named(settings: FleetSettings) -> None:
    """Hold the address of invitations against the server's certificate: devices check it for that name.

    Raises:
        InputError: the certificate cannot be read, or is not valid for the name.
    """
    host, place = settings.network.reached.host, KeysFolder.of(settings).certificate
    if not (names := [name.lower() for name in names_of(place)]):
        raise InputError(f"{place}: it cannot be read as a server's certificate")
    wild = {f"*.{host.partition('.')[2]}".lower()}
    if not {host.lower(), *wild} & set(names):
        raise InputError(
            f"network.address: {place} is valid for {', '.join(names)} and not for {host}, so no device would "
            f"trust the server there; make a certificate with: fedboard keys renew {place.parent} --name {host}"
        )
