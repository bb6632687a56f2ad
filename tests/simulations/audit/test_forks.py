"""Forked processes: fresh keys pass, copied state does not."""

from typing import Any

from fedboard.common.privacy.releases.noise import SecretStream, SecureNoise
from fedboard.simulations.audit.noise_check import fork_test


class _Buffered:
    """Draws keys ahead, as generators with a buffer in the process do; a fork copies the buffer."""

    private, label = True, "buffered"

    def __init__(self) -> None:
        self.keys = [SecureNoise().stream("any").key for _ in range(8)]

    def describe(self) -> dict[str, Any]:
        return {"noise": self.label, "private": True}

    def stream(self, name: str) -> SecretStream:
        return SecretStream(key=self.keys.pop())


def test_secure_noise_survives_a_fork() -> None:
    assert fork_test(SecureNoise()).passed


def test_keys_that_were_drawn_before_a_fork_are_noticed() -> None:
    finding = fork_test(_Buffered())

    assert not finding.passed
    assert "repeated" in finding.detail
