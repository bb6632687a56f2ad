"""What a device relies on is decided by the registered name, the protocol's own checks and her policy alone."""

from collections.abc import Mapping
from typing import Any

import pytest

from fedboard.client.participation.policy import Policy
from fedboard.client.participation.promises import relied_on
from fedboard.common.boards.roster import IdentityKey
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.properties import can_be_vouched, has_second_server
from fedboard.common.protocols.registry import PROTOCOL_NAMES, protocol_class, says, sized_protocol
from fedboard.common.protocols.sessions import Voucher

CLIENTS = 20
HELPER = "ab" * 32
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "careless": {},
    "names a helper": {"helper": HELPER},
    "many survivors": {"least_survivors": 15},
    "few honest": {"most_honest": 3},
}
CLAIMS = ("shows_rows", "second_server", "fits_any_fleet", "vouches", "helper", "identity", "name")


def decided(name: str, parameters: Mapping[str, Any], policy: Policy) -> str:
    """What comes of a statement: the refusal, or how the device would answer."""
    try:
        protocol = relied_on(name, parameters, policy, backend="numpy")
    except RefusedError as refused:
        return str(refused.code)
    pinned = getattr(protocol, "identity", None)
    return f"{protocol.name} {dict(protocol.parameters)} pinned to {pinned and pinned.hex()}"


def all_decisions() -> dict[tuple[str, str], str]:
    found = {}
    for name in PROTOCOL_NAMES:
        parameters = sized_protocol(name, clients=CLIENTS, users=CLIENTS).parameters
        for which, limits in POLICIES.items():
            found[name, which] = decided(name, parameters, Policy(epsilon=1.0, delta=1e-5, **limits))
    return found


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_server_that_claims_a_property_among_the_parameters_is_refused(name: str, claim: str) -> None:
    """Nothing that is stated beside a protocol's own parameters is ever looked at."""
    honest = sized_protocol(name, clients=CLIENTS, users=CLIENTS).parameters
    policy = Policy(epsilon=1.0, delta=1e-5, helper=HELPER)
    assert name in decided(name, honest, policy)  # the control

    for value in (True, False, HELPER):
        assert decided(name, {**honest, claim: value}, policy) == Refusal.BAD_PROTOCOL


def test_properties_that_say_otherwise_change_no_decision_of_a_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a class is made to say of itself, a device goes by its registered name."""
    before = all_decisions()
    assert before["two-server", "careless"] == Refusal.OTHER_HELPER
    assert f"pinned to {HELPER}" in before["two-server", "names a helper"]

    for value in (True, False):
        for name in PROTOCOL_NAMES:
            for claim in ("shows_rows", "second_server", "fits_any_fleet"):
                monkeypatch.setattr(protocol_class(name), claim, value, raising=False)
        assert all_decisions() == before


def test_every_protocol_with_a_second_server_is_answered_only_where_the_policy_names_it() -> None:
    """Who adds such a protocol to the registry has to teach the policy its name: this fails until then."""
    for name in PROTOCOL_NAMES:
        if says(name, has_second_server):
            parameters = sized_protocol(name, clients=CLIENTS, users=CLIENTS).parameters
            assert decided(name, parameters, Policy(epsilon=1.0, delta=1e-5)) == Refusal.OTHER_HELPER


VOUCHED = [name for name in PROTOCOL_NAMES if says(name, can_be_vouched)]
AUTHORITY, OTHER = "cd" * 32, "ef" * 32


@pytest.mark.parametrize("name", VOUCHED)
@pytest.mark.parametrize(
    ("stated", "believed", "answered"),
    [
        (None, None, True),
        (AUTHORITY, AUTHORITY, True),
        (None, AUTHORITY, False),
        (OTHER, AUTHORITY, False),
        (AUTHORITY, None, False),
    ],
)
def test_a_masked_sum_is_answered_only_where_the_authority_of_the_policy_vouches(
    name: str, stated: str | None, believed: str | None, answered: bool
) -> None:
    """A server cannot choose to have nobody vouch for clients, nor somebody else: that would be as before."""
    settings = {} if stated is None else {"vouched_by": stated}
    parameters = sized_protocol(name, clients=CLIENTS, users=CLIENTS, settings=settings).parameters
    policy = Policy(epsilon=1.0, delta=1e-5, vouched_by=believed)
    voucher = None if believed is None else Voucher(identity=IdentityKey(), authority=bytes.fromhex(believed))

    if not answered:
        with pytest.raises(RefusedError) as error:
            relied_on(name, parameters, policy, backend="numpy", voucher=voucher)
        assert error.value.code is Refusal.OTHER_ROSTER
        return
    protocol = relied_on(name, parameters, policy, backend="numpy", voucher=voucher)
    assert getattr(protocol, "voucher", None) is voucher
    if believed is not None:
        assert decided(name, parameters, policy) == Refusal.OTHER_ROSTER  # no identity, no answer


def test_every_protocol_whose_clients_can_be_vouched_for_is_held_to_the_policy() -> None:
    """Who adds such a protocol has to teach the policy its name: this fails until then."""
    for name in VOUCHED:
        parameters = sized_protocol(name, clients=CLIENTS, users=CLIENTS).parameters
        assert decided(name, parameters, Policy(epsilon=1.0, vouched_by=AUTHORITY)) == Refusal.OTHER_ROSTER


@pytest.mark.parametrize("name", VOUCHED)
def test_how_many_may_collude_is_not_the_servers_word_alone(name: str) -> None:
    """It decides how many confirmations open a sum: told that nobody colludes, devices help a server with three of
    sixty to one person's numbers, whatever its certificate says.
    """
    voucher = Voucher(identity=IdentityKey(), authority=bytes.fromhex(AUTHORITY))
    for colluding, least, answered in ((0.1, 0.1, True), (0.0, 0.1, False), (0.05, 0.05, True)):
        settings = {"vouched_by": AUTHORITY, "colluding": colluding}
        parameters = sized_protocol(name, clients=CLIENTS, users=CLIENTS, settings=settings).parameters
        allowed = Policy(epsilon=1.0, delta=1e-5, vouched_by=AUTHORITY, least_colluding=least)
        if answered:
            assert relied_on(name, parameters, allowed, backend="numpy", voucher=voucher)
            continue
        with pytest.raises(RefusedError) as error:
            relied_on(name, parameters, allowed, backend="numpy", voucher=voucher)
        assert error.value.code is Refusal.TOO_FEW
