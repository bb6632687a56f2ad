"""What passes the proxy, and what does not."""

import asyncio
import base64
import json
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedboard.server.fleet.proxy import FORWARDED, FleetProxy, Receive, Send, write_counts

KEY = "-----BEGIN PUBLIC KEY-----\nann\n-----END PUBLIC KEY-----\n"
NODE = {"flwr-public-key": base64.b64encode(KEY.encode()).decode(), "flwr-signature": "c2ln"}


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
    headers: dict[str, str] = NODE,
    content: Any = b"hello",
    upstream: Any = None,
    limit: int = 1000,
) -> tuple[httpx.Response, FleetProxy]:
    async def run() -> tuple[httpx.Response, FleetProxy]:
        behind = httpx.ASGITransport(upstream or Upstream())
        async with httpx.AsyncClient(transport=behind, base_url="http://superlink") as forward:
            proxy = FleetProxy(forward, admitted=[KEY], max_request_bytes=limit)
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(proxy), base_url="http://proxy"
            ) as client:
                return await client.request(method, path, headers=headers, content=content), proxy

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


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"flwr-public-key": "not base64!"},
        {"flwr-public-key": base64.b64encode(b"another key").decode()},
    ],
)
def test_a_node_that_is_not_admitted_never_reaches_the_superlink(headers: dict[str, str]) -> None:
    upstream = Upstream()

    answer, _ = ask("/v1/fleet/activate-node", headers=headers, upstream=upstream)

    assert (answer.status_code, answer.content) == (401, b"not admitted")
    assert upstream.seen == []


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

    answer, _ = ask("/v1/fleet/pull-messages", headers={**NODE, **extra}, upstream=upstream)

    seen = upstream.seen[0][1]
    assert seen["flwr-public-key"] == NODE["flwr-public-key"]
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
