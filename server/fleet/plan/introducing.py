"""What a fleet's server hands to devices that join, from its settings."""

from pathlib import Path

from cryptography import x509

from fedboard.common.errors import InputError
from fedboard.common.keys.root_folder import RootFolder
from fedboard.common.wire.addresses import parse_address
from fedboard.common.wire.enrolment import LARGEST_INTRODUCTION, Introduction
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.publishing.signing import SigningKey


def introduction_of(settings: FleetSettings) -> bytes:
    """The bytes that are handed over, and that an invitation names by their digest.

    Raises:
        InputError: a key or certificate cannot be read, or the authority's file is too large to be one.
    """
    network, privacy, board = settings.network, settings.privacy, settings.board
    served = board.enabled and board.signing_key is not None
    content = Introduction(
        run=settings.name,
        task=settings.task.algorithm,
        protocol=settings.protocol.name,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        adjacency=privacy.adjacency,
        authority=_text(network.authority),
        question_key=QuestionKey.read(network.question_key).public.hex,
        board_key=SigningKey.read(board.signing_key).public.raw.hex()
        if board.signing_key and served
        else None,
        root=_root(board.roots) if served else None,
        board_port=board.port if served else None,
    ).to_bytes()
    if len(content) > LARGEST_INTRODUCTION:
        raise InputError(f"network.authority: {network.authority} is too large for a certificate")
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
        raise InputError(f"network.authority: {path} cannot be read as PEM text") from error


def require_named(settings: FleetSettings) -> None:
    """Hold the address of invitations against the server's certificate: devices check it for that name.

    Raises:
        InputError: the certificate cannot be read, or is not valid for the name.
    """
    if settings.enrolment is None:
        return
    host, place = (
        parse_address(settings.enrolment.address, name="enrolment.address").host,
        settings.network.certificate,
    )
    try:
        certificate = x509.load_pem_x509_certificate(place.read_bytes())
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise InputError(f"network.certificate: {place} cannot be read as a server's certificate") from error
    names = [name.lower() for name in found.get_values_for_type(x509.DNSName)]
    names += [str(address) for address in found.get_values_for_type(x509.IPAddress)]
    wild = {f"*.{host.partition('.')[2]}".lower()}
    if not {host.lower(), *wild} & set(names):
        raise InputError(
            f"enrolment.address: {place} is valid for {', '.join(names)} and not for {host}, so no "
            "device would trust "
            f"the server there; make a certificate with: fedboard keys server --name {host}"
        )
