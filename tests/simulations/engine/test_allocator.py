"""Keeping freed memory: only speed depends on it, so it must never fail."""

import ctypes

import pytest

from fedboard.simulations.engine import starting


class Recorder:
    """A C library that writes down what it is told."""

    def __init__(self) -> None:
        self.options: dict[int, int] = {}

    def mallopt(self, option: int, value: int) -> int:
        self.options[option] = value
        return 1


def test_glibc_is_told_to_keep_what_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Recorder()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)

    starting.keep_freed_memory()

    assert library.options == {-3: 32 << 20, -1: 256 << 20}
