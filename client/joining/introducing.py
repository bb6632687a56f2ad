"""Asking a server for its introduction, and to be a member: first over a connection that proves nothing, then over
one that proves that it is the server which the invitation names. The secret goes over the second alone.
"""

import http.client
import ssl
from dataclasses import dataclass

import msgspec

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.wire.enrolment import (
    INTRODUCTION_PATH,
    JOIN_PATH,
    LARGEST_ANSWER,
    LARGEST_INTRODUCTION,
    Introduction,
    Invitation,
    JoinAnswer,
    JoinRefusal,
    JoinRequest,
)

_SECONDS = 30.0
_SENTENCES = {
    JoinRefusal.UNKNOWN: "the server knows no such invitation: it was withdrawn, or a backup from before it was "
    "restored there",
    JoinRefusal.EXPIRED: "the time of this invitation is over; ask for a new one",
    JoinRefusal.USED: "another device has joined with this invitation; if that was not you, tell whoever runs the "
    "server at once",
    JoinRefusal.FULL: "the fleet has as many devices as it takes",
    JoinRefusal.REMOVED: "this device's key was removed by the fleet; move node.key and identity.key away, so that "
    "others are made, and ask for a new invitation",
    JoinRefusal.TAKEN: "this device's key is a member's already, by another invitation; nothing is to be done",
    JoinRefusal.TOO_OFTEN: "the server gets more requests than it looks at; try again in a minute",
    JoinRefusal.CLOSED: "this fleet takes no devices by invitation",
    JoinRefusal.UNPROVEN: "the server finds that node.key did not sign the request; make sure that its two files "
    "belong together",
    JoinRefusal.MALFORMED: "the server does not understand the request; it may be of another version",
}


class NotAdmittedError(FedboardError):
    """The server did not admit the device; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """What a device that was admitted knows."""

    introduction: Introduction
    answer: JoinAnswer


def introduced(invitation: Invitation) -> Introduction:
    """The server's introduction, which is the one that the invitation names.

    Raises:
        InputError: it is another one, or nobody answers.
    """
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname = False
    nobody.verify_mode = ssl.CERT_NONE  # what comes is believed by its digest alone, and nothing is told
    status, content = _asked(invitation, nobody, "GET", INTRODUCTION_PATH, None, largest=LARGEST_INTRODUCTION)
    if status != 200:
        raise InputError(
            f"{invitation.url}: the server there introduces itself to nobody (status {status}); "
            f"{_SENTENCES[JoinRefusal.TOO_OFTEN if status == 429 else JoinRefusal.CLOSED]}"
        )
    return Introduction.open(content, digest=invitation.introduction)


def ask_to_join(invitation: Invitation, introduction: Introduction, request: JoinRequest) -> JoinAnswer:
    """Hand in a request to the server that the introduction's authority vouches for.

    Raises:
        InputError: nobody answers, or somebody without a certificate of that authority for this name.
        NotAdmittedError: the device is not admitted.
    """
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusted.minimum_version = ssl.TLSVersion.TLSv1_2
    trusted.load_verify_locations(cadata=introduction.authority)
    content = msgspec.json.encode(request)
    status, answered = _asked(invitation, trusted, "POST", JOIN_PATH, content, largest=LARGEST_ANSWER)
    try:
        answer = msgspec.json.decode(answered, type=JoinAnswer)
    except (msgspec.DecodeError, ValueError, RecursionError):
        answer = JoinAnswer(refused="")
    if status == 200 and answer.name is not None:
        return answer
    known = {code.value: told for code, told in _SENTENCES.items()}
    told = known.get(
        answer.refused or "", f"the server could not take the request (status {status}); try again"
    )
    raise NotAdmittedError(f"{invitation.url}: not admitted: {told}")


def _asked(
    invitation: Invitation,
    context: ssl.SSLContext,
    method: str,
    path: str,
    content: bytes | None,
    *,
    largest: int,
) -> tuple[int, bytes]:
    host, port = invitation.address
    connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=context)
    try:
        connection.request(method, path, body=content, headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = answer.read(largest + 1)
    except ssl.SSLCertVerificationError as error:
        raise InputError(
            f"{invitation.url}: the authority of the invitation does not vouch for this server "
            f"({error.verify_message.rstrip('.')}); nothing was told to it"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise InputError(
            f"{invitation.url}: no answer ({type(error).__name__}); is the server running, and is this its address?"
        ) from error
    finally:
        connection.close()
    if len(found) > largest:
        raise InputError(f"{invitation.url}: the answer is larger than any that a server of a fleet gives")
    return answer.status, found
