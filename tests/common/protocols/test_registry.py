"""The registry, the cards, and what is asked of a protocol's class instead of its name."""

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.properties import (
    can_be_vouched,
    fits_any_fleet,
    has_second_server,
    shows_rows,
    with_second_server,
)
from fedboard.common.protocols.registry import (
    PROTOCOL_NAMES,
    USUAL,
    card_of,
    names_where,
    protocol_class,
    says,
    sized_protocol,
)

PROPERTIES = {
    "shows_rows": shows_rows,
    "second_server": has_second_server,
    "fits_any_fleet": fits_any_fleet,
    "vouches": can_be_vouched,
}


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_name_has_one_class_and_its_card_says_every_parameter(name: str) -> None:
    card, protocol = card_of(name), sized_protocol(name, clients=50, users=50)

    assert card.protocol is protocol_class(name) is type(protocol)
    assert protocol.name == name
    assert set(card.meanings) == set(protocol.parameters)
    vouched = {"vouched_by": "ab" * 32} if says(name, can_be_vouched) else {}
    everything = sized_protocol(name, clients=50, users=50, settings=vouched).parameters
    assert set(card.meanings) | set(card.optional) == set(everything)
    assert all(text.strip() for text in (card.trusted, card.server_sees, card.bytes_by, card.steps))
    assert USUAL in PROTOCOL_NAMES


def test_a_name_that_is_not_there_is_refused_with_those_that_are() -> None:
    for ask in (protocol_class, card_of):
        with pytest.raises(InputError, match=f"must be one of {', '.join(PROTOCOL_NAMES)}, got 'shuffled'"):
            ask("shuffled")


def test_what_is_so_of_which_protocol() -> None:
    """Each is a statement that other code relies on: rows that are there, a second server that somebody runs."""
    found = {name: [p for p in PROTOCOL_NAMES if says(p, holds)] for name, holds in PROPERTIES.items()}

    assert found == {
        "shows_rows": ["trusted"],
        "second_server": ["two-server"],
        "fits_any_fleet": ["trusted"],
        "vouches": ["secure-sum", "distributed-dp"],
    }
    assert names_where(shows_rows) == "trusted"
    assert names_where(lambda _: True) == ", ".join(PROTOCOL_NAMES)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_what_says_that_its_parameters_fit_any_fleet_has_the_same_ones_for_all(name: str) -> None:
    few, many = (sized_protocol(name, clients=n, users=3 * n).parameters for n in (10, 500))

    assert (few == many) == says(name, fits_any_fleet)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_second_server_is_given_to_those_that_have_one_and_to_nobody_else(name: str) -> None:
    protocol, noise = sized_protocol(name, clients=10, users=10), SeededNoise(1)

    helped = with_second_server(protocol, noise)

    assert (helped is not protocol) == says(name, has_second_server)
    assert hasattr(protocol, "pinned") == hasattr(protocol, "helped_by") == says(name, has_second_server)
    assert helped.parameters == protocol.parameters


@dataclass(frozen=True)
class Silent:
    """A class of one's own that states nothing."""


@dataclass
class Boasting:
    """One whose parameters, which come from a server, are called like what is asked of its class."""

    shows_rows: Any = False
    second_server: Any = False
    fits_any_fleet: Any = False
    vouches: Any = False


class Vague:
    """One that says neither yes nor no."""

    shows_rows: ClassVar[Any] = "true"
    second_server: ClassVar[Any] = 1
    fits_any_fleet = property(lambda self: True)
    vouches: ClassVar[Any] = "yes"


@pytest.mark.parametrize("asked", PROPERTIES.values(), ids=PROPERTIES)
def test_what_a_class_does_not_state_is_not_so(asked: Any) -> None:
    boasting = Boasting(**dict.fromkeys(PROPERTIES, True))

    for careless in (Silent, Silent(), Boasting, boasting, Vague, Vague()):
        assert not asked(careless)
    assert not says("tests/simulations/sessions/own_protocol.py:Plain", asked)
    assert any(asked(protocol_class(name)) for name in PROTOCOL_NAMES)  # the control


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_device_loads_no_other_protocol(name: str) -> None:
    """What decides on a device stands in the protocol and in its policy."""
    program = (
        "import sys\n"
        "from fedboard.common.protocols.registry import protocol_class\n"
        "import fedboard.client.participation.promises, fedboard.client.participation.steps\n"
        f"protocol_class({name!r})\n"
        "print(*sorted(m for m in sys.modules if m.startswith('fedboard.common.protocols.')))\n"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()

    assert protocol_class(name).__module__ in loaded
    if name != "two-server":
        assert "fedboard.common.protocols.two_server.protocol" not in loaded
