"""What a live page answers, where it may be served and to whom, and what comes after an interruption."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from fedboard.common.errors import InputError
from fedboard.server.operating.run_report import LIVE_POLICY
from fedboard.server.operating.serving import Answer, PageServer, Place, is_own_host, place_of, warning_of
from tests.server.operating.asking import Told, asked, states

HERE = Place(host="127.0.0.1", ports=(0,))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a page that many tests ask and none changes."""
    with PageServer(HERE, Told(secret=True)) as server:
        yield server.address


def port_of(address: str) -> int:
    port = urlsplit(address).port
    assert port is not None
    return port


def test_states_come_as_they_change_and_the_newest_comes_first() -> None:
    source = Told(round=1)
    with PageServer(HERE, source) as server:
        news = states(server.address)
        assert next(news) == {"round": 1}
        tag = asked(server.address)[1]["ETag"]
        assert asked(server.address, If_None_Match=tag)[::2] == (304, b"")
        source.state = {"round": 2}
        assert next(news) == {"round": 2}
        assert asked(server.address, If_None_Match=tag)[0] == 200
        assert next(states(server.address)) == {"round": 2}


def test_who_reads_it_has_the_last_state_before_the_end() -> None:
    source = Told(round=1)
    with PageServer(HERE, source) as server:
        news = states(server.address)
        assert next(news) == {"round": 1}
        source.state = {"round": 9}
        ending = threading.Thread(target=server.__exit__, args=(None, None, None))
        ending.start()
        assert list(news) == [{"round": 9}]
        ending.join()


def test_nothing_is_written_where_nobody_reads_and_once_for_all_who_do() -> None:
    source = Told(round=1)
    with PageServer(HERE, source) as server:
        source.state = {"round": 2}
        assert source.reads == 0
        assert [next(states(server.address)) for _ in range(2)] == [{"round": 2}] * 2
        assert source.reads == 1


def test_other_places_are_for_this_machine_or_for_whoever_reaches_the_address() -> None:
    others = {"/metrics": lambda: Answer(kind="text/plain", content=b"1", status=203)}
    with PageServer(HERE, None, others=others) as server:
        assert asked(server.address, "/metrics")[::2] == (203, b"1")
        assert asked(server.address, "/metrics", Host="rebound.example.org")[0] == 421
        assert asked(server.address, "/metrics", Origin="https://example.org")[0] == 403
        assert asked(server.address, "/")[0] == 404, "there is no page"
    with PageServer(Place(host="0.0.0.0", ports=(0,)), Told(), others=others) as server:
        address = f"http://127.0.0.1:{server.port}/"
        assert asked(address, "/metrics", Host="collected.example.org")[0] == 203
        assert asked(address, "/", Host="collected.example.org")[0] == 421


def test_it_is_there_again_on_the_same_port_after_a_restart() -> None:
    with PageServer(HERE, Told(life=1)) as first:
        tag = asked(first.address)[1]["ETag"]
        port = port_of(first.address)
    again = Place(host="127.0.0.1", ports=(port,))

    with PageServer(again, Told(life=2)) as second:
        assert second.address == first.address
        assert asked(second.address, If_None_Match=tag)[::2] == (200, b'{"life": 2}')


def test_the_page_comes_with_its_policy_and_may_be_framed_by_nobody(address: str) -> None:
    status, headers, content = asked(address)

    assert (status, json.loads(content)) == (200, {"secret": True})
    assert headers["Content-Security-Policy"] == LIVE_POLICY
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert "Python" not in headers["Server"]


@pytest.mark.parametrize(
    "host",
    [
        "rebound.example.org",
        "127.0.0.1.example.org",
        "localhost.example.org",
        "10.0.0.7",
        "0.0.0.0",
        "[::]",
        "",
        "127.0.0.1:8717:1",
        "127.0.0.1@example.org",
        "127.1",
        "2130706433",
        "example.org, 127.0.0.1",
    ],
)
@pytest.mark.parametrize("path", ["/", "/nothing"])
def test_a_name_that_somebody_points_here_gets_nothing(address: str, host: str, path: str) -> None:
    status, _, content = asked(address, path, Host=host)

    assert status == 421
    assert b"secret" not in content


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:9000", "localhost", "LOCALHOST:1", "[::1]:80", "127.9.9.9"]
)
def test_this_machine_by_any_of_its_own_names_gets_the_page(address: str, host: str) -> None:
    assert asked(address, Host=host)[0] == 200


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors"}, 403),
        ("/", {"Origin": "https://example.org"}, 403),
        ("/", {"Origin": "null"}, 403),
        ("/", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"}, 403),
        ("/", {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}, 200),
        ("/", {"Sec_Fetch_Site": "none", "Sec_Fetch_Mode": "navigate"}, 200),
    ],
)
def test_a_browser_that_asks_for_another_page_gets_no_news(
    address: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert asked(address, path, **headers)[0] == status


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE", "CONNECT", "X"]
)
def test_only_get_is_answered(address: str, method: str) -> None:
    status, headers, _ = asked(address, method=method)

    assert status == 405
    assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("path", ["/x", "/../", "/?", "/%2e", "http://127.0.0.1/"])
def test_there_is_nothing_else(address: str, path: str) -> None:
    assert asked(address, path)[0] == 404


def test_connections_that_are_slow_to_ask_keep_nobody_from_the_page() -> None:
    with PageServer(HERE, Told()) as server, ExitStack() as stack:
        for _ in range(40):
            line = socket.create_connection(("127.0.0.1", port_of(server.address)), timeout=30)
            stack.enter_context(line).sendall(b"GET / HTTP/1.1\r\n")

        assert [asked(server.address)[0] for _ in range(3)] == [200] * 3


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
