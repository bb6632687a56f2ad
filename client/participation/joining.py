"""A device joins a fleet: its own key, made here; the server's, pinned by the invitation; a policy of its owner.

The server is asked for its introduction over a connection that proves nothing, then, to be a member, over one that
proves that it is the server which the invitation names. The secret goes over the second alone.
"""

import os
import socket
import ssl
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import grpc
from cryptography import x509
from google.protobuf.message import Message

from fedboard.client.participation.config import load_device, make_device
from fedboard.client.private_files import write_private
from fedboard.common.boards.ed25519_keys import KeyPair, public_pem
from fedboard.common.boards.roots import QUESTIONS as ASKING
from fedboard.common.boards.roots import Root
from fedboard.common.boards.roster import IdentityKey
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.common.messages.certificate_dates import NOT_VOUCHED_FOR
from fedboard.common.messages.devices import DeviceKey, Method
from fedboard.common.messages.devices_pb2 import IntroduceReply, IntroduceRequest, JoinReply, JoinRequest
from fedboard.common.messages.enrolment import LARGEST_INTRODUCTION, Introduction, Invitation, JoinRefusal
from fedboard.common.messages.enrolment import ask_to_join as request_of

_SECONDS = 30.0
_Reply = TypeVar("_Reply", bound=Message)
_SENTENCES = {
    JoinRefusal.UNKNOWN: "the server knows no such invitation: it was withdrawn, or a backup from before it was "
    "restored there",
    JoinRefusal.EXPIRED: "the time of this invitation is over; ask for a new one",
    JoinRefusal.USED: "another device has joined with this invitation; if that was not you, tell whoever runs the "
    "server at once",
    JoinRefusal.FULL: "the fleet has as many devices as it takes",
    JoinRefusal.REMOVED: "this device's key was removed by the fleet; move device.key and identity.key away, so "
    "that others are made, and ask for a new invitation",
    JoinRefusal.TAKEN: "this device's key is a member's already, by another invitation; nothing is to be done",
    JoinRefusal.TOO_OFTEN: "the server gets more requests than it looks at; try again in a minute",
    JoinRefusal.UNPROVEN: "the server finds that device.key did not sign the request; it was changed on its way",
    JoinRefusal.MALFORMED: "the server does not understand the request; it may be of another version",
}


class NotAdmittedError(FedboardError):
    """The server did not admit the device; the message says why and what to do."""


def introduced(invitation: Invitation) -> Introduction:
    """The server's introduction, which is the one that the invitation names.

    Raises:
        InputError: it is another one, or nobody answers.
    """
    shown, name = _shown(invitation)  # what comes is believed by its digest alone, and nothing is told
    try:
        reply = _asked(invitation, shown, Method.INTRODUCE, IntroduceRequest(), IntroduceReply, known_as=name)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise InputError(f"{invitation.url}: {_SENTENCES[JoinRefusal.TOO_OFTEN]}") from error
        raise _nobody(invitation, error) from error
    return Introduction.open(reply.content, digest=invitation.introduction)


def ask_to_join(invitation: Invitation, introduction: Introduction, request: JoinRequest) -> JoinReply:
    """Hand in a request to the server that the introduction's authority vouches for.

    Raises:
        InputError: nobody answers, or somebody without a certificate of that authority for this name.
        NotAdmittedError: the device is not admitted.
    """
    authority = introduction.authority.encode("ascii")
    try:
        reply = _asked(invitation, authority, Method.JOIN, request, JoinReply)
    except grpc.RpcError as error:
        if any(sign in (error.details() or "").lower() for sign in NOT_VOUCHED_FOR):
            raise InputError(
                f"{invitation.url}: the authority of the invitation does not vouch for this server, for this name "
                "and on this day; nothing was told to it"
            ) from error
        if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            told = _SENTENCES[JoinRefusal.TOO_OFTEN]
            raise NotAdmittedError(f"{invitation.url}: not admitted: {told}") from error
        raise _nobody(invitation, error) from error
    if reply.name:
        return reply
    known = {code.value: told for code, told in _SENTENCES.items()}
    told = known.get(reply.refused, "the server does not say why; it may be of another version")
    raise NotAdmittedError(f"{invitation.url}: not admitted: {told}")


def _shown(invitation: Invitation) -> tuple[bytes, str]:
    """The certificate that the server shows, PEM text, which nobody has to vouch for, and a name that it is for."""
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.verify_mode = ssl.CERT_NONE
    nobody.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(invitation.address, timeout=_SECONDS) as plain,
            nobody.wrap_socket(plain, server_hostname=invitation.address.host) as shown,
        ):
            content = shown.getpeercert(binary_form=True) or b""
        certificate = x509.load_der_x509_certificate(content)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise _nobody(invitation, error) from error
    known = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    return ssl.DER_cert_to_PEM_cert(content).encode("ascii"), known[0] if known else ""


def _nobody(invitation: Invitation, error: Exception) -> InputError:
    why = error.code().name if isinstance(error, grpc.RpcError) else type(error).__name__
    return InputError(f"{invitation.url}: no answer ({why}); is the server running, and is this its address?")


def _asked(
    invitation: Invitation,
    authority: bytes,
    method: Method,
    request: Message,
    reply: type[_Reply],
    *,
    known_as: str | None = None,
) -> _Reply:
    """What a server says, whose certificate this authority vouches for; for its address or another name."""
    options: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", LARGEST_INTRODUCTION + (1 << 10)),
        ("grpc.compression_enabled_algorithms_bitset", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if known_as is not None:
        options.append(("grpc.ssl_target_name_override", known_as))
    credentials = grpc.ssl_channel_credentials(root_certificates=authority)
    with grpc.secure_channel(invitation.address.text, credentials, options=options) as channel:
        call = channel.unary_unary(
            method.path, type(request).SerializeToString, response_deserializer=reply.FromString
        )
        found: _Reply = call(request, timeout=_SECONDS)
    return found


AUTHORITY, QUESTIONS, BOARDS, ROOT = "authority.pem", "question-signing.pub", "board-signing.pub", "root.json"
_Key = TypeVar("_Key", bound=KeyPair)
MOST_UNASKED = 10.0
"""A limit above this is nobody's to propose: its owner has to say it."""
_SERVER = """
[server]                        # written by: fedboard client join
address = "{address}"
authority = "authority.pem"     # who vouches for it
key = "device.key"              # made on this device; it never leaves it
question_key = "{question_key}"  # who may ask
identity_key = "identity.key"   # by which other devices may know it, where an authority vouches for it
"""
_BOARD = """
[boards]
source = "{source}"
public_key = "{board_key}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMember:
    """What came of it."""

    device: Path
    """Its configuration."""
    name: str
    """By which the operator knows the device."""
    introduction: Introduction


def join(
    invitation: Invitation, folder: Path, *, epsilon: float | None = None, delta: float | None = None
) -> NewMember:
    """Make this device a member, and write down whom it answers and how much it gives at most.

    A device that is in the folder already (``fedboard ratings init``, or a gateway's ``device.toml``) keeps its
    policy and its ratings. Where the answer of the server got lost, the same call again finds the device a member.

    Args:
        invitation: for this device alone.
        folder: of the device; made if need be.
        epsilon: her limit over all runs; None for what the training asks, up to ``MOST_UNASKED``.
        delta: of that limit; None for the training's.

    Returns:
        What was written.

    Raises:
        InputError: nobody answers, somebody else than was invited to, the folder holds a device that has a server,
            or a limit has to be named.
        NotAdmittedError: the server refuses.
    """
    _require_alone(folder / "device.toml")
    introduction = introduced(invitation)
    ask = partial(ask_to_join, invitation, introduction)
    return become_member(invitation, introduction, folder, ask=ask, epsilon=epsilon, delta=delta)


def become_member(
    invitation: Invitation,
    introduction: Introduction,
    folder: Path,
    *,
    ask: Callable[[JoinRequest], JoinReply],
    epsilon: float | None = None,
    delta: float | None = None,
) -> NewMember:
    """The same with a server that was introduced already.

    Args:
        invitation: for this device alone.
        introduction: of the server that the invitation names.
        folder: of the device; made if need be.
        ask: hands the request to that server.
        epsilon: as for ``join``.
        delta: as for ``join``.

    Raises:
        InputError: the folder holds a device that has a server, or a limit has to be named.
        NotAdmittedError: the server refuses.
    """
    device = folder / "device.toml"
    _require_alone(device)
    limit = None if device.exists() else _limit(introduction, epsilon=epsilon, delta=delta)
    if limit is None:
        _require_unchanged(device, epsilon=epsilon, delta=delta)
    request = request_of(
        _kept(DeviceKey, folder),
        _kept(IdentityKey, folder),
        secret=invitation.secret,
        introduction=invitation.introduction,
        version=version("fedboard"),
    )
    answer = ask(request)
    if limit is not None:
        make_device(folder, epsilon=limit[0], delta=limit[1], adjacency=str(introduction.adjacency))
    _write_server(device, invitation, introduction)
    return NewMember(device=device, name=answer.name, introduction=introduction)


def _kept(kind: type[_Key], folder: Path) -> _Key:
    """The device's key of this kind, made if there is none."""
    place = folder / kind.PRIVATE_NAME
    if not place.exists():
        kind().write(folder)
    return kind.load(place)


def _require_alone(device: Path) -> None:
    if device.exists() and load_device(device).server is not None:
        raise InputError(
            f"{device}: this device has a server already, and a device answers one; make another in a folder of "
            "its own: --out FOLDER"
        )


def _require_unchanged(device: Path, *, epsilon: float | None, delta: float | None) -> None:
    policy = load_device(device).policy
    if epsilon not in (None, policy.epsilon) or delta not in (None, policy.delta):
        raise InputError(f"{device}: this device has a policy already; change epsilon and delta there")


def _limit(introduction: Introduction, *, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is None and introduction.epsilon > MOST_UNASKED:
        raise InputError(
            f"this training asks epsilon {introduction.epsilon:g} of everybody, which protects little; say "
            "yourself how much this device may give: --epsilon NUMBER"
        )
    return (
        introduction.epsilon if epsilon is None else epsilon,
        introduction.delta if delta is None else delta,
    )


def _write_server(device: Path, invitation: Invitation, introduction: Introduction) -> None:
    """The server's keys first, the configuration that names them last, in one step."""
    folder = device.parent
    write_atomically(folder / AUTHORITY, introduction.authority.encode("ascii"))
    write_atomically(folder / QUESTIONS, public_pem(bytes.fromhex(introduction.question_key)))
    address = invitation.address.text
    board_key, question_key = BOARDS, QUESTIONS
    if introduction.root is not None:
        write_atomically(folder / ROOT, introduction.root.encode())
        board_key = ROOT
        question_key = ROOT if ASKING in Root.from_bytes(introduction.root.encode()).roles else QUESTIONS
    text = device.read_text(encoding="utf-8") + _SERVER.format(address=address, question_key=question_key)
    if introduction.board_key is not None and not _has_board(device):
        write_atomically(folder / BOARDS, public_pem(bytes.fromhex(introduction.board_key)))
        text += _BOARD.format(source=address, board_key=board_key)
    write_private(device, text.encode())
    load_device(device)
    os.chmod(folder, 0o700)


def _has_board(device: Path) -> bool:
    return "boards" in tomllib.loads(device.read_text(encoding="utf-8"))
