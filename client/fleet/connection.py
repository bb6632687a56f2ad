"""What a device says to a SuperLink: Flower's Fleet API, spoken by one registered node.

All that a device takes from inside Flower stands in this file, in ``node.py`` and in
``common/rounds/flower_parts.py``; the version of Flower is pinned, and a test names what is gone when Flower moves
it. It is less than a SuperNode takes: neither the run nor its code are asked for, so nothing that a server sends is
ever executed, and the requests are signed here, because Flower's own signing imports a web server (19 MB).
"""

import base64
import ssl
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Final

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectUnavailableError,
    push_objects,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from flwr.supercore.protobuf.client import ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient

from fedboard.client.fleet.bounded_http import bound_responses
from fedboard.client.node.tally import Traffic
from fedboard.common.errors import FedboardError
from fedboard.common.rounds.flower_parts import CountedParts, message_of
from fedboard.common.wire.refusals import Refusal, RefusedError

HEARTBEAT_SECONDS: Final = 10.0
"""A node that is silent for twice as long counts as gone."""
_PULL_SECONDS: Final = 600.0
_RESPONSE_BYTES: Final = 6 << 20
"""Most of one response: Flower cuts a message into parts of 5 MiB, and names 50 000 of them in so much."""
_VERSION: Final = "fedboard-version"
_INSTALLED: Final = version("fedboard")
_AT_ONCE: Final = 2
"""Parts that are fetched at the same time, each of which is in memory a few times meanwhile."""


class UnreadMessageError(FedboardError):
    """A message came and was not read to its end."""

    def __init__(self, head: Message, code: Refusal) -> None:
        """Keep what a reply needs.

        Args:
            head: the message without its content.
            code: why.
        """
        super().__init__(code.value)
        self.head, self.code = head, code


class Connection:
    """One node's requests, each of which may raise what ``httpx`` raises."""

    def __init__(
        self,
        *,
        address: str,
        root_certificate: str,
        private_key: ec.EllipticCurvePrivateKey,
        largest: int,
        traffic: Traffic | None = None,
    ) -> None:
        """Make ready; nothing is sent yet.

        Args:
            address: ``host:port`` of the server.
            root_certificate: PEM text of the authority that vouches for it.
            private_key: the node's, on a NIST curve; its public half is registered at the server.
            largest: most bytes of a message that is taken.
            traffic: counts the bytes, if anybody does.
        """
        trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusted.minimum_version = ssl.TLSVersion.TLSv1_2
        trusted.load_verify_locations(cadata=root_certificate)
        self._client = FleetHttpClient(
            f"https://{address}", interceptors=[_Signature(private_key)], verify=trusted, timeout=30.0
        )
        bound_responses(self._client._client, largest=_RESPONSE_BYTES, traffic=traffic)
        self._largest = largest + largest // 64 + (1 << 16)  # with what Flower writes around it
        self._public_key = public_key_to_bytes(private_key.public_key())
        self._node = Node()

    @property
    def node_id(self) -> int:
        """The number that the server knows this node by; 0 before ``activate``."""
        return self._node.node_id

    def activate(self) -> None:
        """Report for work. Refused while another process with this key is there."""
        request = ActivateNodeRequest(public_key=self._public_key, heartbeat_interval=HEARTBEAT_SECONDS)
        self._node = Node(node_id=self._client.ActivateNode(request).node_id)

    def beat(self) -> None:
        """Say that the node is alive."""
        self._client.SendNodeHeartbeat(
            SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT_SECONDS)
        )

    def receive(self) -> Message | None:
        """The next message for this node, complete, or None where there is none.

        Memory: at most four times the largest message, whatever comes, and 64 MiB.

        Raises:
            UnreadMessageError: it is too large, or is made of other parts than ours.
            ValueError: what came is not a message.
        """
        answer = self._client.PullMessages(PullMessagesRequest(node=self._node))
        if not answer.messages_list:
            return None
        head, tree = message_from_proto(answer.messages_list[0]), answer.message_object_trees[0]
        name, run = tree.object_id, head.metadata.run_id
        head.metadata.__dict__["_message_id"] = name
        pull = _patient(make_pull_object_fn_protobuf(self._client.PullObject, self._node, run))
        try:
            parts = list(dict.fromkeys(part.object_id for part in iterate_object_tree(tree)))
            counted = CountedParts(pull, self._largest)
            contents = counted.all(parts, tries=None, seconds=_PULL_SECONDS, at_once=_AT_ONCE)
        except RefusedError as refused:
            self._confirm(name, run)
            raise UnreadMessageError(head, refused.code) from None
        self._confirm(name, run)
        return message_of(contents, name)

    def _confirm(self, name: str, run: int) -> None:
        """Without the receipt the server only forgets the message later."""
        with suppress(httpx.HTTPError, RefusedError):
            confirmed = self._client.ConfirmMessageReceived
            make_confirm_message_received_fn_protobuf(confirmed, self._node, run)(name)

    def send(self, reply: Message, *, seconds: float) -> None:
        """Hand in a reply.

        Args:
            reply: to a message that was received.
            seconds: how long it took to make.
        """
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            answer = self._client.PushMessages(
                PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(remove_content_from_message(reply))],
                    message_object_trees=[get_object_tree(reply)],
                    clientapp_runtime_list=[seconds],
                )
            )
            push_objects(
                get_all_nested_objects(reply),
                make_push_object_fn_protobuf(
                    self._client.PushObject, self._node, reply.metadata.run_id, answer.session_id
                ),
                object_ids_to_push=set(answer.objects_to_push),
            )

    def leave(self) -> None:
        """Say good-bye, if the server can hear it, and close."""
        with suppress(httpx.HTTPError, ValueError, RuntimeError):
            if self.node_id:
                self._client.DeactivateNode(DeactivateNodeRequest(node_id=self.node_id))
        self._client.close()


def _patient(pull: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """Try again where the server was away for a moment: a message is handed out only once."""

    def patiently(object_id: str) -> bytes:
        try:
            return pull(object_id)
        except httpx.TransportError:
            raise ObjectUnavailableError(object_id) from None

    return patiently


class _Signature:
    """Names the node and its version in each request, and signs the time, as ``/v1/fleet`` wants it."""

    def __init__(self, private_key: ec.EllipticCurvePrivateKey) -> None:
        self._private_key = private_key
        self._public_key = base64.b64encode(public_key_to_bytes(private_key.public_key())).decode("ascii")

    def intercept(
        self, context: ProtobufRequestContext, call_next: Callable[[ProtobufRequestContext], httpx.Response]
    ) -> httpx.Response:
        """Add the headers."""
        time = now().isoformat()
        signature = sign_message(self._private_key, time.encode("ascii"))
        context.request.headers.update(
            {
                FLEET_HTTP_PUBLIC_KEY_HEADER: self._public_key,
                TIMESTAMP_HEADER: time,
                _VERSION: _INSTALLED,
                FLEET_HTTP_SIGNATURE_HEADER: base64.b64encode(signature).decode("ascii"),
            }
        )
        return call_next(context)
