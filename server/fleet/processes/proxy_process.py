"""The proxy as a child process: TLS, limits on connections, counts for the metrics."""

import asyncio
import socket
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import uvicorn

from fedboard.common.wire.addresses import Address
from fedboard.server.fleet.door.enrolment import Enrolment, JoinLimits
from fedboard.server.fleet.door.proxy import FleetProxy, superlink_client, write_counts, write_seen
from fedboard.server.fleet.line.serving import line
from fedboard.server.fleet.members.records import Capacity
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.introducing import introduction_of
from fedboard.server.fleet.plan.sections import NetworkSection
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.lifeline import end_with_parent, told_in_a_sentence
from fedboard.server.front.descriptors import room_for
from fedboard.server.front.front import INSIDE, Front, bound
from fedboard.server.front.limits import ConnectionLimits

_IDLE_SECONDS = 75
_OTHER_DESCRIPTORS = 1024
"""Connections to the SuperLink among them."""


def proxy_command(config: Path) -> list[str]:
    """How it is started; its standard input is the lifeline."""
    return [sys.executable, "-m", "fedboard.server.fleet.processes.proxy_process", str(config)]


async def serve(settings: FleetSettings) -> None:
    """Forward until the process is told to stop."""
    network = settings.network
    async with superlink_client(port=network.superlink_port, authority=network.authority) as upstream:
        state = StateFolder.of(settings)
        limits = connection_limits(network)
        front = Front(limits=limits)
        proxy = FleetProxy(
            upstream,
            admitted=(),
            max_request_bytes=network.max_request_megabytes * 1_000_000,
            max_bytes_per_minute=network.max_megabytes_per_minute * 1_000_000,
            max_requests_per_minute=network.max_requests_per_minute,
            max_answers_per_minute=network.max_answers_per_minute,
            polls_per_second=network.polls_per_second,
            look=NewMembers(Register(state.members)),
            enrolment=_enrolment(settings, front),
        )
        server = uvicorn.Server(
            uvicorn.Config(
                proxy,
                http="h11",  # the other parser keeps headers without end
                ws="none",
                ssl_certfile=network.certificate,
                ssl_keyfile=network.key,
                lifespan="off",
                access_log=False,
                log_level="warning",
                server_header=False,
                date_header=False,
                limit_concurrency=limits.connections,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=2,
            )
        )
        listening = bound(Address(network.listen, network.port), name="the proxy")
        counts = write_counts(proxy, state.counts / "proxy.json", connections=front.counts)
        counting = asyncio.gather(counts, write_seen(proxy, state.door))
        async with AsyncExitStack() as stack:
            direct = proxy.direct
            await stack.enter_async_context(line(state.line, direct.mailbox, direct.present))
            inside = stack.enter_context(socket.create_server((INSIDE, 0)))
            await front.start(listening, inside_port=int(inside.getsockname()[1]))
            try:
                await server.serve([inside])
            finally:
                await front.close()
                counting.cancel()
                with suppress(asyncio.CancelledError):
                    await counting


class NewMembers:
    """Tells the keys of those who are admitted, when others are than at the last call."""

    def __init__(self, register: Register) -> None:
        """Nothing was told."""
        self._register = register
        self._told: tuple[int, int] | None = None

    def __call__(self) -> list[str] | None:
        """The keys; None where nothing has changed."""
        state = self._register.state()
        if state == self._told:
            return None
        keys = [member.key for member in self._register.admitted()]
        self._told = state
        return keys


def _enrolment(settings: FleetSettings, front: Front) -> Enrolment | None:
    enrolment, register = settings.enrolment, StateFolder.of(settings).members
    if enrolment is None:
        return None
    return Enrolment(
        introduction=introduction_of(settings),
        open_register=lambda: Register(register),
        capacity=Capacity(devices=enrolment.max_devices, users=enrolment.most_users),
        limits=JoinLimits(of_all=enrolment.joins_per_minute, of_one_address=enrolment.joins_per_address),
        carrier=enrolment.carrier,
        network_of=front.network_of,
    )


def connection_limits(network: NetworkSection) -> ConnectionLimits:
    """Of the port; this process's limit of file descriptors is raised to hold them.

    Raises:
        InputError: it may not open as many.
    """
    key = "network.connections"
    return ConnectionLimits(
        connections=room_for(
            network.connections, most=network.connections, others=_OTHER_DESCRIPTORS, key=key
        ),
        per_address=network.connections_per_address,
        idle_seconds=network.idle_seconds,
    )


def main() -> None:
    """Be the proxy, as long as the parent lives."""
    end_with_parent()
    asyncio.run(serve(read_settings(Path(sys.argv[1]))))


if __name__ == "__main__":
    with told_in_a_sentence("the proxy"):
        main()
