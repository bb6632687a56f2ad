"""What passes the proxy, and what does not."""

import asyncio
import base64
import json
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

from fedboard.server.fleet.door.proxy import FORWARDED, FleetProxy, write_counts
from fedboard.server.fleet.door.replies import Receive, Send

ANN, EVE = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
KEY = public_key_to_bytes(ANN.public_key()).decode()


def signed(
    private: ec.EllipticCurvePrivateKey = ANN, *, key: str = KEY, seconds_ago: float = 0.0
) -> dict[str, str]:
    """The headers by which Flower knows a node."""
    time = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat()
    return {
        "flwr-public-key": base64.b64encode(key.encode()).decode(),
        "flwr-timestamp": time,
        "flwr-signature": base64.b64encode(sign_message(private, time.encode())).decode(),
    }


class Upstream:
    """A server that answers with what it was sent."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.seen.append((scope["path"], headers))
        kept = [(b"content-type", b"application/protobuf"), (b"set-cookie", b"a=b"), (b"flwr-note", b"x")]
        await send({"type": "http.response.start", "status": 200, "headers": kept})
        for part in (body[:1], body[1:]):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def ask(
    path: str,
    *,
    method: str = "POST",
    headers: dict[str, str] | list[tuple[str, str]] | None = None,
    content: Any = b"hello",
    upstream: Any = None,
    limit: int = 1000,
    per_minute: int = 1_000_000,
) -> tuple[httpx.Response, FleetProxy]:
    async def run() -> tuple[httpx.Response, FleetProxy]:
        behind = httpx.ASGITransport(upstream or Upstream())
        async with httpx.AsyncClient(transport=behind, base_url="http://superlink") as forward:
            proxy = FleetProxy(
                forward, admitted=[KEY], max_request_bytes=limit, max_bytes_per_minute=per_minute
            )
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(proxy), base_url="http://proxy"
            ) as client:
                sent = signed() if headers is None else headers
                return await client.request(method, path, headers=sent, content=content), proxy

    return asyncio.run(run())


@pytest.mark.parametrize("path", sorted(name.decode() for name in FORWARDED))
def test_the_fleets_own_requests_pass_with_their_body(path: str) -> None:
    upstream = Upstream()

    answer, proxy = ask(path, upstream=upstream)

    assert (answer.status_code, answer.content) == (200, b"hello")
    assert upstream.seen[0][0] == path
    assert proxy.counts == {"200": 1}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/control/start-run",
        "/v1/control/list-runs",
        "/v1/runtime/acquire-task",
        "/v1/runtime/pull-task-input",
        "/v1/fleet/register-node",
        "/v1/fleet/unregister-node",
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet/pull-messages/../../control/start-run",
        "/v1/fleet/pull-messages%2f..%2f..%2fcontrol%2fstart-run",
        "/v1/fleet//pull-messages",
        "/v1/fleet/pull-messages/",
        "/v1/fleet/pull-messages?x=1",
        "/V1/fleet/pull-messages",
        "/docs",
        "/health",
        "/",
    ],
)
def test_everything_else_is_not_found_and_never_reaches_the_superlink(path: str) -> None:
    upstream = Upstream()

    answer, proxy = ask(path, upstream=upstream)

    assert (answer.status_code, answer.content) == (404, b"not found")
    assert upstream.seen == []
    assert proxy.counts == {"404": 1}


def test_only_posts_pass() -> None:
    for method in ("GET", "PUT", "OPTIONS", "DELETE"):
        assert ask("/v1/fleet/pull-messages", method=method)[0].status_code == 404


OTHER = public_key_to_bytes(EVE.public_key()).decode()
UNPROVEN: dict[str, Callable[[], dict[str, str]]] = {
    "nothing": dict,
    "a key that is no base64": lambda: {**signed(), "flwr-public-key": "not base64!"},
    "a node that is not admitted": lambda: signed(EVE, key=OTHER),
    "the public key alone": lambda: {"flwr-public-key": signed()["flwr-public-key"]},
    "the signature of another": lambda: signed(EVE),
    "no base64": lambda: {**signed(), "flwr-signature": "not base64!"},
    "another time": lambda: {**signed(), "flwr-timestamp": signed()["flwr-timestamp"]},
    "too long ago": lambda: signed(seconds_ago=310),
    "a time to come": lambda: signed(seconds_ago=-60),
    "no time": lambda: {**signed(), "flwr-timestamp": "now"},
    "a time without a zone": lambda: {**signed(), "flwr-timestamp": "2030-01-01T00:00:00"},
    "a time beyond all": lambda: {**signed(), "flwr-timestamp": "0001-01-01T00:00:00+23:59"},
}
"""Headers, made when they are sent: a signature is of the time."""


@pytest.mark.parametrize("headers", UNPROVEN.values(), ids=UNPROVEN)
def test_who_does_not_prove_to_be_an_admitted_node_never_reaches_the_superlink(
    headers: Callable[[], dict[str, str]],
) -> None:
    upstream, taken = Upstream(), []

    async def parts() -> Any:
        taken.append(1)
        yield b"x"

    answer, _ = ask("/v1/fleet/activate-node", headers=headers(), content=parts(), upstream=upstream)

    assert (answer.status_code, answer.content) == (401, b"not admitted")
    assert (upstream.seen, taken) == ([], [])  # nor was anything of the body read


def test_a_clock_that_is_a_little_off_does_no_harm() -> None:
    for seconds in (-4, 290):
        answer, _ = ask("/v1/fleet/pull-messages", headers=signed(seconds_ago=seconds))
        assert answer.status_code == 200


AMBIGUOUS = {
    "two keys": [("flwr-public-key", base64.b64encode(OTHER.encode()).decode())],
    "two signatures": [("flwr-signature", "AAAA")],
    "two lengths": [("content-length", "5"), ("content-length", "6")],
    "length and encoding": [("content-length", "5"), ("transfer-encoding", "chunked")],
    "endless length": [("content-length", "9" * 5000)],
    "a length below zero": [("content-length", "-5")],
    "a length with a sign": [("content-length", "+5")],
    "no length": [("content-length", "")],
}
"""What comes before the headers of a node."""


@pytest.mark.parametrize("headers", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_headers_that_two_readers_could_take_differently_never_reach_the_superlink(
    headers: list[tuple[str, str]],
) -> None:
    upstream = Upstream()

    answer, proxy = ask("/v1/fleet/push-object", headers=[*headers, *signed().items()], upstream=upstream)

    assert (answer.status_code, answer.content) == (400, b"bad request")
    assert upstream.seen == []
    assert proxy.counts == {"400": 1}


def test_a_length_beyond_the_limit_is_too_large_before_anything_is_read() -> None:
    answer, _ = ask("/v1/fleet/push-object", headers={**signed(), "content-length": "1001"})

    assert (answer.status_code, answer.content) == (413, b"too large")


def test_what_brings_no_part_of_an_answer_is_small() -> None:
    content = b"x" * 1_000_001
    for path, status in (("push-messages", 413), ("push-object", 200)):
        answer, _ = ask(f"/v1/fleet/{path}", content=content, limit=2_000_000, per_minute=2_000_000)
        assert answer.status_code == status


def test_a_node_that_has_sent_its_bytes_of_this_minute_waits() -> None:
    answer, proxy = ask("/v1/fleet/push-object", content=b"x" * 1000, per_minute=999)

    assert (answer.status_code, answer.content) == (503, b"busy")
    assert proxy.counts == {"503": 1}


def test_a_body_beyond_the_limit_is_refused_whether_it_says_its_length_or_not() -> None:
    async def parts() -> Any:
        for _ in range(20):
            yield b"x" * 100

    for content in (b"x" * 1001, parts()):
        answer, _ = ask("/v1/fleet/push-object", content=content)
        assert (answer.status_code, answer.content) == (413, b"too large")
    assert ask("/v1/fleet/push-object", content=b"x" * 1000)[0].status_code == 200


def test_only_headers_that_the_protocol_uses_pass_in_either_direction() -> None:
    upstream = Upstream()
    extra = {"cookie": "a=b", "x-forwarded-for": "1.2.3.4", "authorization": "secret", "te": "trailers"}

    answer, _ = ask("/v1/fleet/pull-messages", headers={**signed(), **extra}, upstream=upstream)

    seen = upstream.seen[0][1]
    assert seen["flwr-public-key"] == signed()["flwr-public-key"]
    assert not set(extra) & set(seen)
    assert answer.headers["flwr-note"] == "x"
    assert "set-cookie" not in answer.headers


def test_a_superlink_that_is_away_is_a_fixed_answer() -> None:
    async def away(*_: object) -> None:
        raise httpx.ConnectError("superlink at 127.0.0.1:8444 says no")

    answer, proxy = ask("/v1/fleet/pull-messages", upstream=away)

    assert (answer.status_code, answer.content) == (502, b"away")
    assert proxy.counts == {"502": 1}


def test_the_counts_are_written_for_the_metrics(tmp_path: Path) -> None:
    _, proxy = ask("/docs")
    counts = tmp_path / "proxy.json"

    async def for_a_moment() -> None:
        writing = asyncio.create_task(write_counts(proxy, counts, seconds=0.01))
        await asyncio.sleep(0.05)
        writing.cancel()

    asyncio.run(for_a_moment())

    assert json.loads(counts.read_text()) == {"responses": {"404": 1}}
