"""Sessions of masked sums and of two servers: each step's messages, as either side reads them."""

from collections.abc import Callable

import numpy as np

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.secure_sum.client import SecureSumClient
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.two_server.helper import LocalHelper, RoundKey, TwoServerRules
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.server.helper.messages import (
    Begin,
    Take,
    Total,
    packed,
    total_from_bytes,
    total_to_bytes,
    unpacked,
)
from fleets.fuzz_port import Target
from fleets.specimens import N_ITEMS, N_USERS, boards, rows

_ABOUT = b"run films\nround 0"
_CLIENTS = tuple(f"client-{number}" for number in range(4))


def session_targets() -> dict[str, Target]:
    """Of both sides, by name."""
    return {**_of_masked_sums(), **_of_two_servers()}


def _given() -> Given:
    contribution, requests = rows()
    return Given(contribution=contribution, requests=requests)


class _Masked:
    """An honest session up to a step: what the server said, what the clients replied, and how they were before."""

    def __init__(self, step: int) -> None:
        self._given, requests = _given(), rows()[1]
        settings = {"most_users": len(_CLIENTS) * N_USERS}
        self.protocol = SecureSum.sized(clients=len(_CLIENTS), users=settings["most_users"], settings={})
        self.server = self.protocol.open(_ABOUT, requests, _CLIENTS, n_items=N_ITEMS)
        clients = {name: self.protocol.join(_ABOUT, SecureNoise()) for name in _CLIENTS}
        for _ in range(step):
            for name, message in self.server.outgoing().items():
                self.server.take(name, clients[name].answer(message, self._given))
            self.server.proceed()
        self.states = {name: client.to_bytes() for name, client in clients.items()}
        self.messages = dict(self.server.outgoing())
        self.replies = {name: clients[name].answer(said, self._given) for name, said in self.messages.items()}

    def ask(self, content: bytes) -> object:
        """A client's answer to a message, by the client as it was."""
        client: SecureSumClient = self.protocol.resume(_ABOUT, SecureNoise(), self.states[_CLIENTS[0]])
        return client.answer(content, self._given)


def _of_masked_sums() -> dict[str, Target]:
    found = {}
    for step, name in enumerate(("keys", "shares", "masked", "unmask")):
        session = _Masked(step)
        refusals = (RefusedError, PrivacyError)
        asked, replies = (session.messages[_CLIENTS[0]],), tuple(session.replies.values())[:2]
        found[f"device/masked-sum-{name}"] = Target(session.ask, refusals, asked, "frame", 0.3)
        found[f"server/masked-sum-{name}"] = Target(
            _taking(step, session), (RefusedError,), replies, "frame", 0.5
        )
    session = _Masked(2)

    def resumed(content: bytes) -> object:
        return session.protocol.resume(_ABOUT, SecureNoise(), content).to_bytes()

    state = Target(resumed, (InputError,), (session.states[_CLIENTS[0]],))
    return {**found, "device/masked-sum-state": state}


def _taking(step: int, first: _Masked) -> Callable[[bytes], object]:
    """The server takes a reply; once it has taken one it has to be as it was."""
    held = [first]

    def take(content: bytes) -> object:
        held[0].server._step.replied.discard(_CLIENTS[0])
        try:
            held[0].server.take(_CLIENTS[0], content)
        except RefusedError as error:
            if error.code is not Refusal.DUPLICATE:
                raise
        return step

    return take


def _of_two_servers() -> dict[str, Target]:
    requests = rows()[1]
    parts: dict[str, bytes] = {}

    class Kept(LocalHelper):
        """A helper, whose parts are kept."""

        def take(self, about: bytes, client: str, part: bytes) -> None:
            parts[client] = packed(Take.of(about, client, part))
            super().take(about, client, part)

    protocol = TwoServer.sized(clients=3, users=3 * N_USERS, settings={}).helped_by(Kept(SecureNoise()))
    session = protocol.open(_ABOUT, requests, _CLIENTS[:3], n_items=N_ITEMS)
    given = _given()
    asked = session.outgoing()[_CLIENTS[0]]
    replies = [protocol.join(_ABOUT, SecureNoise()).answer(asked, given) for _ in range(2)]
    session.take(_CLIENTS[1], replies[1])

    def answered(content: bytes) -> object:
        return protocol.join(_ABOUT, SecureNoise()).answer(content, given)

    def taken(content: bytes) -> object:
        session._taken.pop(_CLIENTS[0], None)
        try:
            session.take(_CLIENTS[0], content)
        except RefusedError as error:
            if error.code is not Refusal.DUPLICATE:
                raise
        return None

    rules = TwoServerRules.from_parameters(protocol.parameters)
    begin = packed(Begin(_ABOUT, dict(rules.parameters), boards()[0].to_bytes()))
    share = np.arange(20, dtype=np.uint32)

    def reply(content: bytes) -> object:
        try:
            return unpacked(content, RoundKey)
        except RefusedError:
            return total_from_bytes(content)

    def of_leader(content: bytes) -> object:
        try:
            return TwoServerRules.from_parameters(unpacked(content, Begin).parameters)
        except RefusedError:
            try:
                return unpacked(content, Take).part
            except RefusedError:
                return unpacked(content, Total)

    ask, refusals = (begin, parts[_CLIENTS[1]], packed(Total(_ABOUT, _CLIENTS))), (RefusedError,)
    replied = packed(session.key), total_to_bytes(share)
    return {
        "device/two-server-ask": Target(answered, refusals, (asked,), "frame", 0.1),
        "server/two-server-reply": Target(taken, refusals, (replies[0],), "frame", 0.1),
        "helper/messages": Target(of_leader, (RefusedError, InputError), ask),
        "server/helper-replies": Target(reply, refusals, replied),
    }
