"""The waits of a node."""

import logging

import pytest

from fedboard.client.node.connection import Trouble
from fedboard.client.node.node import Waits, pause_after


def test_a_server_that_is_away_is_asked_less_and_less_and_each_trouble_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Waits("fleet.example.org:443", lambda: None)
    with caplog.at_level(logging.WARNING, logger="fedboard"):
        waits = [node.failed(Trouble.UNREACHABLE) for _ in range(8)]
        node.failed(Trouble.TAKEN)
        node.went_well()
        again = node.failed(Trouble.UNREACHABLE)

    for n, wait in enumerate(waits):
        assert 0.8 <= wait / min(0.25 * 2**n, 10.0) <= 1.2
    assert 0.8 <= again / 0.25 <= 1.2
    said = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert said == ["unreachable", "taken", "unreachable"]


def test_a_slow_server_is_given_time_but_not_for_ever() -> None:
    assert pause_after(1.0, took=0.001) == 1.0
    assert pause_after(1.0, took=1.0) == 4.0
    assert pause_after(1.0, took=1000.0) == 10.0
    assert pause_after(60.0, took=1000.0) == 60.0


def test_what_is_done_in_between_is_done_once_a_minute() -> None:
    done = list[int]()
    node = Waits("fleet.example.org:443", lambda: done.append(1))

    node.tidy()
    node.tidy()

    assert done == [1]
