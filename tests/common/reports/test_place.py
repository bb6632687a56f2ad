"""Where a live page may be served, and by which names it may be asked for there."""

import pytest

from fedboard.common.errors import InputError
from fedboard.common.reports.serving import is_own_host, place_of, warning_of


@pytest.mark.parametrize("given", ["0.0.0.0:8717", "[::]:8717", "10.0.0.7:8717", "lab.example.org:8717"])
def test_another_address_is_taken_and_warned_about(given: str) -> None:
    warning = warning_of(place_of(given, port=1))

    assert warning is not None
    assert "everybody who reaches" in warning
    assert "SSH tunnel" in warning


@pytest.mark.parametrize(
    "given", ["8717", "config.toml", "http://127.0.0.1:8717", "127.0.0.1:99999", "127.0.0.1"]
)
def test_what_is_no_address_is_refused_in_words(given: str) -> None:
    with pytest.raises(InputError, match=r"address of the live page \(--live\)"):
        place_of(given, port=1)


@pytest.mark.parametrize(
    ("listening", "host", "own"),
    [
        ("10.0.0.7", "10.0.0.7:8717", True),
        ("10.0.0.7", "10.0.0.8", False),
        ("10.0.0.7", "evil.example.org", False),
        ("0.0.0.0", "10.0.0.7", True),
        ("0.0.0.0", "[fe80::1]", True),
        ("0.0.0.0", "evil.example.org", False),
        ("0.0.0.0", "localhost:8717", True),
        ("0.0.0.0", "localhost.example.org", False),
        ("10.0.0.7", "localhost", False),
        ("lab.example.org", "LAB.example.org:8717", True),
        ("lab.example.org", "evil.example.org", False),
        ("lab.example.org", "10.0.0.7", False),
    ],
)
def test_beyond_this_machine_only_the_address_that_was_given_counts(
    listening: str, host: str, own: bool
) -> None:
    assert is_own_host([host], listening=listening) is own
