"""The door knows who is a member at each request, and how much each of them, and each stranger, may ask of it."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedboard.server.fleet.door.enrolment import INTRODUCTION, JOIN, Enrolment, JoinLimits
from fedboard.server.fleet.door.proxy import FleetProxy
from fedboard.server.fleet.door.seen import Seen
from fedboard.server.fleet.members.records import Capacity
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.processes.proxy_process import NewMembers
from tests.server.fleet.door.test_proxy import KEY, Upstream, signed

PULL, PUSH = "/v1/fleet/pull-messages", "/v1/fleet/push-messages"
SECRET = b"s" * 32


@pytest.fixture
def register(tmp_path: Path) -> Register:
    register = Register(tmp_path / "members.sqlite")
    register.invite(SECRET, name="ann", max_users=1, seconds=60)
    register.join(SECRET, KEY, capacity=Capacity(devices=1, users=1))
    return register


def asked(
    requests: Sequence[tuple[str, dict[str, Any]] | Callable[[], object]], proxy_of: Callable[..., FleetProxy]
) -> tuple[list[httpx.Response], FleetProxy]:
    """What the door answers to one request after the other; calls happen in between."""

    async def run() -> tuple[list[httpx.Response], FleetProxy]:
        found = []
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(Upstream()), base_url="http://superlink"
        ) as behind:
            proxy = proxy_of(behind)
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(proxy, client=("127.0.0.1", 7)), base_url="http://door"
            ) as client:
                for request in requests:
                    if callable(request):
                        request()
                    else:
                        path, named = request
                        found.append(await client.request(**{"method": "POST", "url": path, **named}))
        return found, proxy

    return asyncio.run(run())


def a_door(register: Register, **limits: Any) -> Callable[..., FleetProxy]:
    usual = {"max_request_bytes": 1000, "max_bytes_per_minute": 100_000}
    return lambda behind: FleetProxy(behind, admitted=(), look=NewMembers(register), **{**usual, **limits})


def of_ann(path: str = PULL, **more: str) -> tuple[str, dict[str, Any]]:
    return path, {"headers": {**signed(), **more}, "content": b"hello"}


def test_the_next_request_of_a_removed_device_is_refused(register: Register, tmp_path: Path) -> None:
    def remove() -> None:
        with Register(tmp_path / "members.sqlite") as operators:  # another process
            operators.remove("ann")

    answers, proxy = asked([of_ann(), remove, of_ann(), of_ann(PUSH)], a_door(register))

    assert [answer.status_code for answer in answers] == [200, 401, 401]
    assert proxy.seen._devices == {}, "nothing is kept of it"


def test_who_joined_just_now_is_let_in(tmp_path: Path) -> None:
    register = Register(tmp_path / "members.sqlite")
    register.invite(SECRET, name="ann", max_users=1, seconds=60)

    def join() -> None:
        with Register(tmp_path / "members.sqlite") as other:
            other.join(SECRET, KEY, capacity=Capacity(devices=1, users=1))

    answers, _ = asked([of_ann(), join, of_ann()], a_door(register))

    assert [answer.status_code for answer in answers] == [401, 200]


def test_where_it_is_not_known_who_is_a_member_nobody_is_let_in() -> None:
    def broken() -> list[str]:
        raise sqlite3.OperationalError("disk I/O error")

    def door(behind: httpx.AsyncClient) -> FleetProxy:
        return FleetProxy(
            behind, admitted=[KEY], max_request_bytes=1000, max_bytes_per_minute=1000, look=broken
        )

    answers, _ = asked([of_ann()], door)

    assert answers[0].status_code == 503


def test_a_device_that_asks_or_answers_too_often_has_to_wait(register: Register) -> None:
    polls, _ = asked([of_ann()] * 4, a_door(register, max_requests_per_minute=3))
    pushes, _ = asked([*[of_ann(PUSH)] * 3, of_ann()], a_door(register, max_answers_per_minute=2))

    assert [answer.status_code for answer in polls] == [200, 200, 200, 503]
    assert [answer.status_code for answer in pushes] == [200, 200, 503, 200]


def test_what_was_seen_of_a_device_is_written_for_the_operator(register: Register, tmp_path: Path) -> None:
    version, hostile = {"fedboard-version": "0.1.0"}, {"fedboard-version": '"><script>'}
    _, proxy = asked([of_ann(**hostile), of_ann(**version), of_ann(PUSH, **version)], a_door(register))
    proxy.seen.write(tmp_path / "door.json")

    written = json.loads((tmp_path / "door.json").read_text())
    assert set(written["devices"]) == {KEY}
    found = written["devices"][KEY]
    assert (found["requests"], found["answers"], found["received_bytes"]) == (3, 1, 15)
    assert (found["version"], found["last"] <= written["written"]) == ("0.1.0", True)
    _, proxy = asked([of_ann(**hostile)], a_door(register))
    proxy.seen.write(tmp_path / "door.json")
    assert json.loads((tmp_path / "door.json").read_text())["devices"][KEY]["version"] == ""
    assert Seen().pause == 5.0


def enrolling(
    register: Register, tmp_path: Path, limits: JoinLimits, network: str = "a"
) -> Callable[..., FleetProxy]:
    enrolment = Enrolment(
        introduction=b"hello",
        open_register=lambda: Register(tmp_path / "members.sqlite"),
        capacity=Capacity(devices=1, users=1),
        limits=limits,
        network_of=lambda port: network,
    )

    def door(behind: httpx.AsyncClient) -> FleetProxy:
        return FleetProxy(
            behind, admitted=(), max_request_bytes=1000, max_bytes_per_minute=1000, enrolment=enrolment
        )

    return door


def test_strangers_are_heard_so_often_and_no_more(register: Register, tmp_path: Path) -> None:
    hello = (INTRODUCTION.decode(), {"method": "GET"})
    guess = (JOIN.decode(), {"content": b"{}"})
    few = JoinLimits(of_all=100, of_one_address=2)

    answers, proxy = asked([hello, guess, guess, hello], enrolling(register, tmp_path, few))

    assert [answer.status_code for answer in answers] == [200, 400, 429, 429]
    assert answers[2].json()["refused"] == "too-often"
    assert proxy.enrolment is not None
    assert proxy.enrolment.counts == {"malformed": 1, "too-often": 2}
    few = JoinLimits(of_all=3, of_one_address=100)
    shared = enrolling(register, tmp_path, few)
    answers, _ = asked([hello] * 3, shared)
    assert [answer.status_code for answer in answers] == [200] * 3
    answers, _ = asked([hello], shared)
    assert answers[0].status_code == 429


def test_without_invitations_these_places_are_not_there(register: Register) -> None:
    answers, _ = asked(
        [(INTRODUCTION.decode(), {"method": "GET"}), (JOIN.decode(), {"content": b"{}"})], a_door(register)
    )

    assert [answer.status_code for answer in answers] == [404, 404]


def test_a_register_that_fails_admits_nobody(tmp_path: Path, register: Register) -> None:
    limits = JoinLimits(of_all=100, of_one_address=100)
    door = enrolling(register, tmp_path / "nowhere", limits)

    answers, _ = asked([(JOIN.decode(), {"content": b"{}"})], door)

    assert answers[0].status_code == 400  # what is no request is not looked up
