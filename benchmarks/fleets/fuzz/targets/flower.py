"""Messages in the parts that Flower cuts them into, as a device and a server fetch them and put them together."""

import hashlib
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from flwr.app import Message, RecordDict
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import PullMessagesResponse
    from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
    from flwr.supercore.task_identity import TaskIdentity

from fleets.fuzz.documents import Form, Inside, of_json, to_json
from fleets.fuzz.specimens import authority, boards, node
from fleets.fuzz.trials import Parser

from fedboard.client.fleet.connection import Connection
from fedboard.common.keys.node_keys import load_private_key
from fedboard.common.rounds.flower_parts import SMALL_BYTES, frames_of, record_of
from fedboard.common.rounds.question import ROUND
from fedboard.server.fleet.rounds.uploads import Upload

_LARGEST = 1 << 20


class _NoMessageError(Exception):
    """Whoever reads the parts goes on with the next message, whatever is wrong with this one."""


def flower_parsers() -> list[Parser]:
    """Of both sides."""
    specimens = tuple(_WHOLE.write(_parts_of(record), None) for record in _records())
    return [
        Parser(
            name=f"{who}/flower-parts",
            read=_read_by(read),
            refusals=(_NoMessageError,),
            specimens=specimens,
            form=_WHOLE,
            share=0.3,
        )
        for who, read in (("device", _by_device), ("server", _by_server))
    ]


def _records() -> list[RecordDict]:
    """Small in configurations, large in arrays, each with a board beside it or none."""
    board = boards()[1].to_bytes()
    large = bytes(SMALL_BYTES)
    return [record_of(b"hello"), record_of(b"hello", board), record_of(large), record_of(large, board)]


def _parts_of(record: RecordDict) -> list[list[Any]]:
    """Each part: its name, its kind, the names of its own parts, and what is in it; the message last."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    message = Message(record, 7, ROUND, ttl=60.0, group_id="1")
    found = []
    for name, part in get_all_nested_objects(message).items():
        head, _, body = part.deflate().partition(b"\0")
        kind, children, _ = head.decode().split(" ")
        found.append([name, kind, children.split(",") if children else [], _body(body)])
    return found


def _body(body: bytes) -> Any:
    try:
        found = of_json(body)
        return Inside(found) if isinstance(found, list) else body
    except ValueError:
        return body


def _write(document: Any, _: None) -> bytes:
    """All parts, each named by its content, so that those that name it are renamed too."""
    renamed: dict[str, str] = {}
    parts = []
    for name, kind, children, inside in document:
        held = inside if isinstance(inside, bytes) else to_json(getattr(inside, "value", inside)).encode()
        for old, new in renamed.items():
            held = held.replace(old.encode(), new.encode())
        listed = ",".join(renamed.get(child, child) for child in map(str, children))
        content = f"{kind} {listed} {len(held)}".encode() + b"\0" + held
        renamed[str(name)] = hashlib.sha256(content).hexdigest()
        parts.append(content)
    heads = b"".join(len(part).to_bytes(4, "little") for part in parts)
    return len(parts).to_bytes(4, "little") + heads + b"".join(parts)


def _split(content: bytes) -> list[bytes]:
    many = min(int.from_bytes(content[:4], "little"), 1000)
    start, found = 4 + 4 * many, []
    for number in range(many):
        length = int.from_bytes(content[4 + 4 * number : 8 + 4 * number], "little")
        found.append(content[start : start + length])
        start += length
    return found


def _read(content: bytes) -> tuple[Any, None]:
    found = []
    for part in _split(content):
        head, _, body = part.partition(b"\0")
        kind, children, _ = head.decode().split(" ")
        name = hashlib.sha256(part).hexdigest()
        found.append([name, kind, children.split(",") if children else [], _body(body)])
    return found, None


_WHOLE = Form(_read, _write)


def _read_by(read: Callable[[dict[str, bytes]], object]) -> Callable[[bytes], object]:
    def from_bytes(content: bytes) -> object:
        parts = {hashlib.sha256(part).hexdigest(): part for part in _split(content)}
        if not parts:
            raise _NoMessageError
        try:
            return read(parts)
        except MemoryError:
            raise
        except Exception as error:
            raise _NoMessageError(type(error).__name__) from error

    return from_bytes


class _Link:
    """A server that hands out one message."""

    def __init__(self, parts: dict[str, bytes]) -> None:
        names = list(parts)
        self._parts = parts
        self._tree = ObjectTree(object_id=names[-1], children=[ObjectTree(object_id=n) for n in names[:-1]])
        head = Message(record_of(b""), 7, ROUND, ttl=60.0, group_id="1")
        head.metadata.__dict__["_message_id"] = names[-1]
        self._head = message_to_proto(remove_content_from_message(head))

    def PullMessages(self, _: Any) -> PullMessagesResponse:  # noqa: N802  # Flower's names
        return PullMessagesResponse(messages_list=[self._head], message_object_trees=[self._tree])

    def PullObject(self, request: Any) -> PullObjectResponse:  # noqa: N802
        content = self._parts.get(request.object_id)
        if content is None:
            return PullObjectResponse(object_found=False)
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, _: Any) -> None:  # noqa: N802
        """Nothing follows."""


@cache
def _connection() -> Connection:
    return Connection(
        address="127.0.0.1:1",
        root_certificate=authority().read_text(),
        private_key=load_private_key(node()),
        largest=_LARGEST,
    )


def _by_device(parts: dict[str, bytes]) -> object:
    connection = _connection()
    connection.__dict__["_client"] = _Link(parts)
    message = connection.receive()
    return message is not None and frames_of(message.content)


def _by_server(parts: dict[str, bytes]) -> object:
    def pull(name: str) -> bytes:
        if name not in parts:
            raise ObjectPullError(name, "there is none")
        return parts[name]

    message = Upload(list(parts), pull, _LARGEST).message()
    return message is not None and frames_of(message.content)
