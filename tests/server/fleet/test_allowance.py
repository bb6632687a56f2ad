"""So many bytes a minute, of each sender by themselves."""

from fedboard.server.fleet.enrolment import Allowance


class Clock:
    """Stands still until it is set."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_what_was_used_up_comes_back_within_a_minute() -> None:
    clock = Clock()
    allowance = Allowance(per_minute=600, clock=clock)

    assert allowance.take("ann", 600)
    assert not allowance.take("ann", 1)
    clock.seconds = 10.0
    assert allowance.take("ann", 100)
    assert not allowance.take("ann", 1)
    clock.seconds = 1000.0
    assert allowance.take("ann", 600)
    assert not allowance.take("ann", 1)


def test_nobody_uses_up_what_is_anothers() -> None:
    allowance = Allowance(per_minute=600, clock=Clock())

    assert allowance.take("eve", 600)
    assert allowance.take("ann", 600)


def test_what_does_not_fit_uses_nothing_up() -> None:
    allowance = Allowance(per_minute=600, clock=Clock())

    assert not allowance.take("ann", 601)
    assert allowance.take("ann", 600)


def test_senders_without_number_are_forgotten_once_they_have_everything_back() -> None:
    clock = Clock()
    allowance = Allowance(per_minute=1, clock=clock)
    for number in range(20_000):
        allowance.take(number, 1)
    clock.seconds = 61.0

    assert allowance.take("ann", 1)
    assert list(allowance._used) == ["ann"]
