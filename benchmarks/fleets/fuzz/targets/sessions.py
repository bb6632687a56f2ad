"""Sessions of masked sums and of two servers: each step's messages, as either side reads them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from fleets.fuzz.specimens import N_ITEMS, N_USERS, boards, rows
from fleets.fuzz.trials import Parser

from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import Given
from fedboard.common.protocols.secure_sum.client import SecureSumClient
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.two_server.helper import LocalHelper
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.common.protocols.two_server.rules import TwoServerRules
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.server.helper.messages import (
    begin_message,
    key_reply,
    read_begin,
    read_key,
    read_share,
    read_take,
    read_total,
    share_reply,
    take_message,
    total_message,
)

_ABOUT = b"run films\nround 0"
_CLIENTS = tuple(f"client-{number}" for number in range(4))


def session_parsers() -> list[Parser]:
    """Of both sides."""
    return [*_of_masked_sums(), *_of_two_servers()]


def _given() -> Given:
    contribution, requests = rows()
    return Given(contribution=contribution, requests=requests)


class _Masked:
    """An honest session up to a step: what the server said, what the clients replied, and how they were before."""

    def __init__(self, step: int) -> None:
        contribution, requests = rows()
        self._given = Given(contribution=contribution, requests=requests)
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


def _of_masked_sums() -> list[Parser]:
    found = []
    for step, name in enumerate(("keys", "shares", "masked", "unmask")):
        session = _Masked(step)
        found.append(
            Parser(
                name=f"device/masked-sum-{name}",
                read=session.ask,
                refusals=(RefusedError, PrivacyError),
                specimens=(session.messages[_CLIENTS[0]],),
                form="frame",
                share=0.3,
            )
        )
        found.append(
            Parser(
                name=f"server/masked-sum-{name}",
                read=_taking(step, session),
                refusals=(RefusedError,),
                specimens=tuple(session.replies.values())[:2],
                form="frame",
                share=0.5,
            )
        )
    session = _Masked(2)

    def resumed(content: bytes) -> object:
        return session.protocol.resume(_ABOUT, SecureNoise(), content).to_bytes()

    found.append(
        Parser(
            name="device/masked-sum-state",
            read=resumed,
            refusals=(InputError,),
            specimens=(session.states[_CLIENTS[0]],),
            form="msgpack",
        )
    )
    return found


def _taking(step: int, first: _Masked) -> Callable[[bytes], object]:
    """The server takes a reply; once it has taken one it has to be as it was."""
    held = [first]

    def take(content: bytes) -> object:
        held[0].server._replied.discard(_CLIENTS[0])
        try:
            held[0].server.take(_CLIENTS[0], content)
        except RefusedError as error:
            if error.code is not Refusal.DUPLICATE:
                raise
        return step

    return take


def _of_two_servers() -> list[Parser]:
    requests = rows()[1]
    helper = LocalHelper(SecureNoise())
    parts: dict[str, bytes] = {}

    class Kept:
        """A helper, whose parts are kept."""

        def begin(self, about, asked, rules):  # type: ignore[no-untyped-def]
            return helper.begin(about, asked, rules)

        def take(self, about, client, part):  # type: ignore[no-untyped-def]
            parts[client] = take_message(about, client, part)
            helper.take(about, client, part)

        def total(self, about, clients):  # type: ignore[no-untyped-def]
            return helper.total(about, clients)

    protocol = TwoServer.sized(clients=3, users=3 * N_USERS, settings={}).helped_by(Kept())
    session = protocol.open(_ABOUT, requests, _CLIENTS[:3], n_items=N_ITEMS)
    given = replace(_given())
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
    begin = begin_message(_ABOUT, rules, boards()[0].to_bytes())
    share = np.arange(20, dtype=np.uint32)

    def reply(content: bytes) -> object:
        for read in (read_key, read_share):
            try:
                return read(content)
            except RefusedError as error:
                refused = error
        raise refused

    def of_leader(content: bytes) -> object:
        for read in (read_begin, read_take, read_total):
            try:
                return read(content)
            except RefusedError as error:
                if b"Begin" in content[:40] or read is read_total:
                    raise
                refused = error
        raise refused

    key = key_reply(session.key)
    specimens = {
        "device/two-server-ask": (answered, (asked,), 0.1),
        "server/two-server-reply": (taken, (replies[0],), 0.1),
        "helper/messages": (of_leader, (begin, parts[_CLIENTS[1]], total_message(_ABOUT, _CLIENTS)), 1.0),
        "server/helper-replies": (reply, (key, share_reply(share)), 1.0),
    }
    return [
        Parser(name=name, read=read, refusals=(RefusedError,), specimens=of, form="frame", share=weight)
        for name, (read, of, weight) in specimens.items()
    ]
