"""HOST:PORT, read strictly wherever one is written."""

from pathlib import Path

import pytest

from fedboard.client.boards.sources import open_source
from fedboard.client.participation.policy import Server
from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import parse_address
from fedboard.server.fleet.settings import NetworkSection
from fedboard.server.helper.link import HelperLink
from fedboard.server.helper.service import RunningHelper
from fedboard.server.operating.ops import start_ops
from tests.server.publishing.running import serve_boards

NOWHERE = Path("nowhere")


READERS = {
    "board service": lambda text: serve_boards(NOWHERE, address=text).__enter__(),
    "helper": lambda text: RunningHelper(
        state=NOWHERE, identity=NOWHERE, certificate=NOWHERE, private_key=NOWHERE, address=text
    ),
    "metrics": lambda text: start_ops(text, run=None).__enter__(),
    "link to a helper": lambda text: HelperLink(text, authority=NOWHERE),
    "fleet.toml": lambda text: NetworkSection(address=text),
    "device.toml": lambda text: Server(address=text, authority=NOWHERE, key=NOWHERE),
    "grpc source": lambda text: open_source(f"grpc://{text}"),
    "grpcs source": lambda text: open_source(f"grpcs://{text}"),
    "bare source": open_source,
    "web source": lambda text: open_source(f"https://{text}/mirror"),
}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8445", "127.0.0.1", 8445),
        ("boards.example.org:1", "boards.example.org", 1),
        ("[::1]:65535", "::1", 65535),
        ("[fe80::1%eth0]:80", "fe80::1%eth0", 80),
        ("my_host:08", "my_host", 8),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text, name="it") == (host, port)


@pytest.mark.parametrize(
    "text",
    ["", "host", ":80", "host:", "host:-1", "host:8a", "::1:80", "a b:80", "http://h:80", "h:80/x", "u@h:80"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT and nothing else"):
        parse_address(text, name="it", listening=True)


def test_port_0_takes_a_free_one_and_is_for_listening_alone() -> None:
    assert parse_address("127.0.0.1:0", name="it", listening=True).port == 0
    with pytest.raises(InputError, match=r"must be in \[1, 65535\], got 0"):
        parse_address("127.0.0.1:0", name="it")


@pytest.mark.parametrize("port", [65536, 99999])
@pytest.mark.parametrize("reader", READERS)
def test_a_port_beyond_65535_is_refused_wherever_an_address_is_read(reader: str, port: int) -> None:
    """gRPC takes it modulo 2^16 and listens, or connects, somewhere else."""
    with pytest.raises((InputError, ValueError), match=r"65535\]"):
        READERS[reader](f"127.0.0.1:{port}")
