"""The warm node: what it takes from Flower is there, and what it says of a failure is a code."""

import contextlib
import importlib
import logging
import socket
import ssl
import threading
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from threading import Event

import httpx
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedboard.client.fleet.node import APP_FAILED, WarmNode, _trouble, answered
from fedboard.client.node.settings import NodeSettings
from fedboard.client.node.tally import Tally, Trouble
from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.wire.refusals import Refusal
from fedboard.server import tls
from fedboard.server.tls import make_authority

TAKEN_FROM_FLOWER = (
    "flwr.app.message:remove_content_from_message",
    "flwr.common.constant:ErrorCode.CLIENT_APP_RAISED_EXCEPTION",
    "flwr.common.constant:TIMESTAMP_HEADER",
    "flwr.common.serde:message_from_proto",
    "flwr.common.serde:message_to_proto",
    "flwr.proto.fleet_pb2:ActivateNodeRequest",
    "flwr.proto.fleet_pb2:DeactivateNodeRequest",
    "flwr.proto.fleet_pb2:PullMessagesRequest",
    "flwr.proto.fleet_pb2:PushMessagesRequest",
    "flwr.proto.heartbeat_pb2:SendNodeHeartbeatRequest",
    "flwr.proto.node_pb2:Node",
    "flwr.supercore.constant:FLEET_HTTP_PUBLIC_KEY_HEADER",
    "flwr.supercore.constant:FLEET_HTTP_SIGNATURE_HEADER",
    "flwr.supercore.date:now",
    "flwr.supercore.inflatable.inflatable_object:get_all_nested_objects",
    "flwr.supercore.inflatable.inflatable_object:get_object_tree",
    "flwr.supercore.inflatable.inflatable_object:iterate_object_tree",
    "flwr.supercore.inflatable.inflatable_object:no_object_id_recompute",
    "flwr.supercore.inflatable.inflatable_protobuf_utils:make_confirm_message_received_fn_protobuf",
    "flwr.supercore.inflatable.inflatable_protobuf_utils:make_pull_object_fn_protobuf",
    "flwr.supercore.inflatable.inflatable_protobuf_utils:make_push_object_fn_protobuf",
    "flwr.app.message.arraychunk:ArrayChunk",
    "flwr.supercore.inflatable.inflatable_object:get_object_body",
    "flwr.supercore.inflatable.inflatable_object:get_object_head_values_from_object_content",
    "flwr.supercore.inflatable.inflatable_utils:ObjectUnavailableError",
    "flwr.supercore.inflatable.inflatable_utils:inflate_object_from_contents",
    "flwr.supercore.inflatable.inflatable_utils:pull_objects",
    "flwr.supercore.inflatable.inflatable_utils:pull_and_inflate_object_from_tree",
    "flwr.supercore.inflatable.inflatable_utils:push_objects",
    "flwr.supercore.primitives.asymmetric:public_key_to_bytes",
    "flwr.supercore.primitives.asymmetric:sign_message",
    "flwr.supercore.protobuf.client:ProtobufRequestContext",
    "flwr.supercore.task_identity:TaskIdentity",
    "flwr.supernode.fleet_http_client:FleetHttpClient.ActivateNode",
    "flwr.supernode.fleet_http_client:FleetHttpClient.ConfirmMessageReceived",
    "flwr.supernode.fleet_http_client:FleetHttpClient.PullMessages",
    "flwr.supernode.fleet_http_client:FleetHttpClient.PushMessages",
    "flwr.supernode.fleet_http_client:FleetHttpClient.SendNodeHeartbeat",
    "flwr.cli.build:build_fab_from_files",
    "flwr.supercore.control:ControlHttpClient.StartRun",
    "flwr.superlink.cli.flower_superlink:flower_superlink",
)


@pytest.mark.parametrize("place", TAKEN_FROM_FLOWER)
def test_what_is_taken_from_inside_flower_is_still_there(place: str) -> None:
    module, _, name = place.partition(":")
    found = importlib.import_module(module)

    for part in name.split("."):
        assert hasattr(found, part), f"flwr {version('flwr')} has no {place}; see client/fleet/connection.py"
        found = getattr(found, part)


def a_message() -> Message:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 2, 0
    message = Message(RecordDict({"c": ConfigRecord({"x": b"?"})}), 2, "query.round")
    message.metadata.__dict__["_message_id"] = "1" * 64
    return message


def a_context() -> Context:
    return Context(run_id=1, node_id=2, node_config={}, state=RecordDict(), run_config={})


def test_a_failure_of_the_app_is_answered_with_a_code_and_never_with_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def app(message: Message, context: Context) -> Message:
        raise RuntimeError("ann rated film 7 with 5 stars")

    with caplog.at_level(logging.ERROR):
        reply = answered(app, a_message(), a_context())

    assert reply.has_error()
    assert reply.error.reason == APP_FAILED
    assert reply.metadata.reply_to_message_id == "1" * 64
    assert "ann rated" not in str(vars(reply))
    assert "ann rated" in caplog.text, "on the device itself it may be read"


def test_refusals_are_counted_apart_and_each_code_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    tally = Tally(asked=7, answered=6, failed=1, undelivered=1)

    with caplog.at_level(logging.WARNING, logger="fedboard"):
        for code in (Refusal.OVER_LIMIT, Refusal.OVER_LIMIT, Refusal.NOT_PUBLISHED, Refusal.OVER_LIMIT):
            tally.refuse(code)

    assert (tally.refused, tally.given) == (4, 2)
    assert [record.args for record in caplog.records] == [("over-limit",), ("not-published",)]


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    make_authority(tmp_path / "authority.pem", tmp_path / "authority.key", name="films")
    make_node_key(tmp_path / "node.key", name="ann")
    return NodeSettings(
        server="127.0.0.1:1",
        root_certificate=tmp_path / "authority.pem",
        private_key=tmp_path / "node.key",
        poll_seconds=0.05,
    )


def test_a_server_that_is_away_is_waited_for_until_told_to_stop(
    settings: NodeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    node, stop = WarmNode(settings, lambda message, context: message), Event()
    with caplog.at_level(logging.WARNING, logger="fedboard"):
        running = threading.Thread(target=node.run, args=(stop,))
        running.start()
        stop.wait(0.8)
        assert running.is_alive()
        stop.set()
        running.join(60)

    assert not running.is_alive()
    told = [record.getMessage() for record in caplog.records if record.name.startswith("fedboard.client.")]
    assert told == ["no work from 127.0.0.1:1: unreachable"], "said once, not at each try"


def test_a_stop_that_comes_while_an_event_s_lock_is_not_held_is_no_error(
    settings: NodeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for an event releases its lock; an interrupt before it is taken again must not release it twice."""
    node, stop, tidied = WarmNode(settings, lambda message, context: message), Event(), list[int]()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def refused() -> None:
        tidied.append(1)
        if len(tidied) > 1:
            stop.set()
        raise httpx.ConnectError("nobody there")

    monkeypatch.setattr(stop._cond, "_acquire_restore", interrupted)
    monkeypatch.setattr(node._connection, "activate", refused)

    assert node.run(stop).answered == 0


def test_what_is_to_be_done_between_messages_is_done_also_while_the_server_is_away(
    settings: NodeSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """Kept answers are erased when their time is over; a failure to do so ends no device."""
    done = Event()

    def tidy() -> None:
        done.set()
        raise OSError("a disk that is full")

    stop = Event()
    node = WarmNode(settings, lambda message, context: message, idle=tidy)
    with caplog.at_level(logging.ERROR, logger="fedboard"):
        running = threading.Thread(target=node.run, args=(stop,))
        running.start()
        assert done.wait(60)
        assert running.is_alive()
        stop.set()
        running.join(60)

    assert not running.is_alive()
    assert "what is done between two messages failed" in caplog.text


@pytest.mark.parametrize("server", ["127.0.0.1", ":8443", "fleet.example.org:https"])
def test_an_address_needs_host_and_port(settings: NodeSettings, server: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        NodeSettings(
            server=server, root_certificate=settings.root_certificate, private_key=settings.private_key
        )


def test_the_files_of_a_device_are_checked_at_the_start(settings: NodeSettings, tmp_path: Path) -> None:
    for missing in ("root_certificate", "private_key"):
        files = {"root_certificate": settings.root_certificate, "private_key": settings.private_key}
        files[missing] = tmp_path / "absent"
        with pytest.raises(InputError, match="absent"):
            WarmNode(NodeSettings(server="127.0.0.1:1", **files), lambda message, context: message)
    settings.root_certificate.write_text("no certificate")
    with pytest.raises(InputError, match=r"authority\.pem: .* ca_certificate .* this file is none"):
        WarmNode(settings, lambda message, context: message)


def test_a_server_that_is_slow_is_asked_for_work_less_often(settings: NodeSettings) -> None:
    node = WarmNode(settings, lambda message, context: message)

    assert node._pause(0.001) == settings.poll_seconds
    assert node._pause(1.0) == 4.0
    assert node._pause(1000.0) == 10.0  # and not for ever


def test_a_server_whose_certificate_has_expired_is_not_merely_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_authority(tmp_path / "ca.pem", tmp_path / "ca.key", name="films")
    monkeypatch.setattr(tls, "_SERVER_DAYS", -1)
    monkeypatch.setattr(tls, "_CLOCKS_APART", timedelta(days=5))
    pair = (tmp_path / "server.pem", tmp_path / "server.key")
    tls.make_server_certificate(
        *pair, authority=tmp_path / "ca.pem", authority_key=tmp_path / "ca.key", names=()
    )
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(*pair)
    trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        greeting = threading.Thread(target=greet_once, args=(listening, shown))
        greeting.start()
        with pytest.raises(httpx.TransportError) as failed, httpx.Client(verify=trusted) as client:
            client.get(f"https://127.0.0.1:{listening.getsockname()[1]}/")
        greeting.join()

    assert _trouble(failed.value, admitted=False) is Trouble.EXPIRED


def greet_once(listening: socket.socket, shown: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError), listening.accept()[0] as accepted:
        shown.wrap_socket(accepted, server_side=True).close()
