"""Asking a server for its introduction, and to be a member: first over a connection that proves nothing, then over
one that proves that it is the server which the invitation names. The secret goes over the second alone.
"""

import socket
import ssl
from typing import TypeVar

import grpc
from cryptography import x509
from google.protobuf.message import Message

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.wire.certificate_dates import NOT_VOUCHED_FOR
from fedboard.common.wire.devices import Method
from fedboard.common.wire.devices_pb2 import IntroduceReply, IntroduceRequest, JoinReply, JoinRequest
from fedboard.common.wire.enrolment import LARGEST_INTRODUCTION, Introduction, Invitation, JoinRefusal

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


class _CallFailedError(Exception):
    """The server did not answer; why, in the words of gRPC."""

    def __init__(self, error: grpc.RpcError) -> None:
        super().__init__(error.code().name)
        self.code, self.details = error.code(), (error.details() or "").lower()


def introduced(invitation: Invitation) -> Introduction:
    """The server's introduction, which is the one that the invitation names.

    Raises:
        InputError: it is another one, or nobody answers.
    """
    shown, name = _shown(invitation)  # what comes is believed by its digest alone, and nothing is told
    try:
        reply = _asked(invitation, shown, Method.INTRODUCE, IntroduceRequest(), IntroduceReply, known_as=name)
    except _CallFailedError as error:
        if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
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
    except _CallFailedError as error:
        if any(sign in error.details for sign in NOT_VOUCHED_FOR):
            raise InputError(
                f"{invitation.url}: the authority of the invitation does not vouch for this server, for this name "
                "and on this day; nothing was told to it"
            ) from error
        if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise NotAdmittedError(
                f"{invitation.url}: not admitted: {_SENTENCES[JoinRefusal.TOO_OFTEN]}"
            ) from error
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
    why = error.code.name if isinstance(error, _CallFailedError) else type(error).__name__
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
        try:
            found: _Reply = call(request, timeout=_SECONDS)
        except grpc.RpcError as error:
            raise _CallFailedError(error) from error
    return found
