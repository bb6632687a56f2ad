"""The one loop over a session: who is out stays out, whatever the session or a late client would have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from fedboard.common.errors import TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sessions import OpenStep, SessionLoop
from fedboard.common.protocols.sums.exact import DenseSums

CLIENTS = ("a", "b", "c")


@dataclass
class Careless:
    """A session that asks everybody in each of three steps, and would take anything at any time."""

    steps: int = 3
    least: int = 0
    taken: list[tuple[int, str, bytes]] = field(default_factory=list)
    closed: int = 0

    @property
    def asks_contributions(self) -> bool:
        return self.closed == 1

    def outgoing(self) -> Mapping[str, bytes]:
        return dict.fromkeys(CLIENTS, b"step %d" % self.closed)

    def take(self, client: str, reply: bytes) -> None:
        if reply == b"bad":
            raise RefusedError(Refusal.MALFORMED)
        self.taken.append((self.closed, client, reply))

    def proceed(self) -> bool:
        if len({client for step, client, _ in self.taken if step == self.closed}) < self.least:
            raise TooFewAnswersError("too few", given=True)
        self.closed += 1
        return self.closed < self.steps

    def sums(self) -> ExactSums:
        return DenseSums(sums={})


def replies(of: Callable[[int, str], bytes | None]) -> Callable[[OpenStep], None]:
    """Carries to everybody who is asked; None: nothing comes back."""

    def carry(step: OpenStep) -> None:
        for name in sorted(step.asked):
            reply = of(step.number, name)
            if reply is not None:
                try:
                    step.take(name, reply)
                except RefusedError as refused:
                    assert refused.code is Refusal.MALFORMED  # noqa: PT017

    return carry


@pytest.mark.parametrize("missed", [None, b"bad"])
def test_who_misses_a_step_or_is_refused_there_is_never_asked_again(missed: bytes | None) -> None:
    session = Careless()
    loop = SessionLoop(session=session)
    asked: list[frozenset[str]] = []
    answer = replies(lambda step, name: missed if (step, name) == (0, "b") else b"yes")

    def carry(step: OpenStep) -> None:
        asked.append(step.asked)
        assert set(step.messages) == set(CLIENTS), "the session itself would ask again"
        answer(step)

    loop.run(carry)

    assert asked == [frozenset("abc"), frozenset("ac"), frozenset("ac")]
    assert loop.out == {"b"}
    assert {(step, name) for step, name, _ in session.taken} == {
        (step, name) for step in range(3) for name in "ac"
    }


def test_nothing_of_somebody_who_is_out_or_was_not_asked_reaches_the_session() -> None:
    session, late = Careless(), list[Refusal]()
    loop = SessionLoop(session=session)

    def carry(step: OpenStep) -> None:
        for name in (*CLIENTS, "stranger"):
            if (step.number, name) == (0, "b"):
                continue  # who comes back in the next step
            try:
                step.take(name, b"yes")
            except RefusedError as refused:
                late.append(refused.code)

    loop.run(carry)

    assert late == [Refusal.UNKNOWN_NODE] * 5  # b twice, the stranger three times
    assert {name for _, name, _ in session.taken} == {"a", "c"}


def test_a_step_is_closed_once_its_messages_were_carried_and_who_stops_closes_nothing() -> None:
    session = Careless()
    steps = SessionLoop(session=session).steps()
    first, second = next(steps), next(steps)

    assert (first.number, first.asks_contributions) == (0, False)
    assert (second.number, second.asks_contributions) == (1, True)
    assert session.closed == 1
    steps.close()
    assert session.closed == 1


def test_too_few_replies_end_it_and_say_who_was_out() -> None:
    loop = SessionLoop(session=Careless(least=2))

    with pytest.raises(TooFewAnswersError) as lost:
        loop.run(replies(lambda step, name: b"yes" if step == 0 or name == "a" else None))

    assert lost.value.given
    assert loop.out == {"b", "c"}
