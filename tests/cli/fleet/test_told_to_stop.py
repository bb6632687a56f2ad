"""What ends a command that serves in other threads."""

import signal
from collections.abc import Iterator

import pytest

from fedboard.cli.fleet.server import stays, told_to_stop


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_either_signal_is_a_word_to_ask_for_and_interrupts_nothing(number: signal.Signals) -> None:
    told = told_to_stop()
    assert not told()
    assert stays(told, 0.0)

    signal.raise_signal(number)

    assert told()
    assert not stays(told, 3600.0)
