"""What a device's call says of itself: read in one way only, and signed just now by whom it names."""

import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.messages import devices as wire
from fedboard.common.messages.devices import DeviceKey, Method, Signed
from tests.thorough import examples

FOLDER = Path(__file__).parents[3] / "common" / "messages"
KEY = DeviceKey()
KEYS = {KEY.public.hex(): Ed25519PublicKey.from_public_bytes(KEY.public)}
DIGEST = hashlib.sha256(b"").hexdigest()
NOW = 1_000.0


def metadata(**changes: object) -> dict[str, str | bytes]:
    return dict(KEY.metadata(Method.WORK, DIGEST, micros=int(NOW * 1e6), **changes))  # type: ignore[arg-type]


def read(given: dict[str, str | bytes], method: Method = Method.WORK, now: float = NOW) -> Signed | None:
    return Signed.read(method, given.items(), KEYS, now=now)


def test_what_was_signed_is_read() -> None:
    found = read(metadata(work="ab" * 16))

    assert found == Signed(key=KEY.public.hex(), micros=int(NOW * 1e6), work="ab" * 16, digest=DIGEST)
    assert found.has(b"")
    assert not found.has(b"x")


@pytest.mark.parametrize(("seconds", "counts"), [(299, True), (301, False), (-299, True), (-301, False)])
def test_a_call_is_of_now(seconds: float, counts: bool) -> None:
    assert (read(metadata(), now=NOW + seconds) is not None) is counts


def test_each_method_is_signed_for_by_itself() -> None:
    assert [read(metadata(), method) is not None for method in Method] == [False, False, True, False]


@pytest.mark.parametrize("work", ["a\nb", "", "-" * 2, "A" * 32, "a" * 31, "a" * 33, "a" * 32 + "\n"])
def test_a_statement_is_read_in_one_way_only(work: str) -> None:
    """Whatever is between two parts could not have been part of one of them."""
    assert read(metadata(work=work)) is None


FIELDS = (wire.KEY, wire.TIME, wire.WORK, wire.DIGEST, wire.SIGNATURE)
VALUES = st.one_of(
    st.none(), st.binary(max_size=80), st.text(max_size=80), st.text("0123456789abcdef-\n", max_size=70)
)


@settings(max_examples=examples(100, thorough=2000), deadline=None)
@given(changes=st.dictionaries(st.sampled_from([*FIELDS, "user-agent"]), VALUES, min_size=1))
def test_whatever_stands_in_the_metadata_is_a_verdict(changes: dict[str, str | bytes | None]) -> None:
    honest = metadata()
    given = {name: value for name, value in {**honest, **changes}.items() if value is not None}

    found = read(given)

    assert (found is not None) is all(given.get(name) == honest[name] for name in FIELDS)


@pytest.mark.parametrize("field", FIELDS)
def test_nothing_stands_there_twice(field: str) -> None:
    honest = tuple(metadata().items())
    again = [pair for pair in honest if pair[0] == field]

    assert Signed.read(Method.WORK, [*honest, *again], KEYS, now=NOW) is None


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -float("inf"), 1e300, -5.0, 0.0])
def test_no_pause_is_more_than_an_hour_or_less_than_none(seconds: float) -> None:
    assert 0.0 <= wire.sane_pause(seconds) <= wire.LONGEST_SECONDS
    assert wire.seconds_for(0) == 30.0
    assert wire.seconds_for(1 << 40) == wire.LONGEST_SECONDS


def test_the_methods_are_those_of_the_proto_file() -> None:
    from fedboard.common.messages.devices_pb2 import DESCRIPTOR

    service = DESCRIPTOR.services_by_name["Devices"]
    assert service.full_name == wire.SERVICE
    assert [method.name for method in service.methods] == list(Method)
    streamed = [(method.client_streaming, method.server_streaming) for method in service.methods]
    assert streamed == [(False, False), (False, False), (False, True), (True, False)]
