"""A device joins a fleet: its own key, made here; the server's, pinned by the invitation; a policy of its owner."""

import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from fedboard.client.device.config import load_device
from fedboard.client.device.new_device import make_device
from fedboard.client.joining.introducing import ask_to_join, introduced
from fedboard.client.private_files import write_private
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.keys.ed25519_keys import KeyPair, public_pem
from fedboard.common.keys.roots import QUESTIONS as ASKING
from fedboard.common.keys.roots import Root
from fedboard.common.keys.roster import IdentityKey
from fedboard.common.wire.devices import DeviceKey
from fedboard.common.wire.devices_pb2 import JoinReply, JoinRequest
from fedboard.common.wire.enrolment import Introduction, Invitation
from fedboard.common.wire.enrolment import ask_to_join as request_of

AUTHORITY, QUESTIONS, BOARDS, ROOT = (
    "authority.pem",
    "question-signing.pub",
    "board-signing.pub",
    "root.json",
)
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

    def ask(request: JoinRequest) -> JoinReply:
        return ask_to_join(invitation, introduction, request)

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
            f"{device}: this device has a server already, and a device answers one; make another in a "
            "folder of its "
            "own: --out FOLDER"
        )


def _require_unchanged(device: Path, *, epsilon: float | None, delta: float | None) -> None:
    policy = load_device(device).policy
    if epsilon not in (None, policy.epsilon) or delta not in (None, policy.delta):
        raise InputError(f"{device}: this device has a policy already; change epsilon and delta there")


def _limit(introduction: Introduction, *, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    if epsilon is None and introduction.epsilon > MOST_UNASKED:
        raise InputError(
            f"this training asks epsilon {introduction.epsilon:g} of everybody, which protects "
            "little; say yourself how "
            "much this device may give: --epsilon NUMBER"
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
