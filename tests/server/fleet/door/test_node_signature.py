"""What of Flower the proxy knows by heart, since to import Flower takes it longer than all else together."""

import subprocess
import sys

import pytest
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_HEADER, TIMESTAMP_TOLERANCE
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER

from fedboard.server.fleet.door import node_signature


def test_headers_and_times_are_those_of_flower() -> None:
    headers = (FLEET_HTTP_PUBLIC_KEY_HEADER, TIMESTAMP_HEADER, FLEET_HTTP_SIGNATURE_HEADER)

    assert tuple(header.lower().encode() for header in headers) == (
        node_signature._KEY,
        node_signature._TIME,
        node_signature._SIGNATURE,
    )
    assert node_signature._OLDEST_SECONDS == TIMESTAMP_TOLERANCE
    assert node_signature._CLOCK_SECONDS == SYSTEM_TIME_TOLERANCE


@pytest.mark.slow
def test_the_proxy_and_the_superlinks_start_import_nothing_that_they_need_not() -> None:
    started = "import fedboard.server.fleet.processes.{}, sys; print(sorted({!r} & set(sys.modules)))"
    for process, spared in (("proxy_process", {"flwr", "numba", "scipy"}), ("superlink", {"flwr", "numpy"})):
        command = [sys.executable, "-c", started.format(process, spared)]
        told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert told.stdout == "[]\n", process
