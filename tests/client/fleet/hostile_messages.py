"""Messages that weigh more than they look, read in a process of their own: what they take of its memory.

Run as ``python -m tests.client.fleet.hostile_messages CASE READER MEBIBYTES TIMES FOLDER``; prints JSON.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.app.message import remove_content_from_message
    from flwr.common.serde import message_to_proto
    from flwr.proto.fleet_pb2 import PullMessagesResponse
    from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse
    from flwr.proto.recorddict_pb2 import ConfigRecord as ProtoConfigRecord
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
    from flwr.supercore.inflatable.inflatable_utils import pull_and_inflate_object_from_tree
    from flwr.supercore.task_identity import TaskIdentity

from fedboard.client.answering.asker import Asker
from fedboard.client.fleet.connection import Connection, UnreadMessageError
from fedboard.common.keys.node_keys import load_private_key
from fedboard.common.rounds.flower_parts import frame_of, record_of
from fedboard.common.rounds.question import ROUND
from fedboard.common.wire.refusals import RefusedError
from fedboard.common.wire.signing import QuestionKey

MIB = 1 << 20
Parts = dict[str, bytes]
"""By name, the message itself last."""


def parts_of(record: RecordDict) -> tuple[Message, Parts]:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 0, 1
    message = Message(record, 7, ROUND, ttl=60.0, group_id="1")
    message.metadata.__dict__["_message_id"] = message.object_id
    return message, {name: part.deflate() for name, part in get_all_nested_objects(message).items()}


def rewritten(parts: Parts, kind: bytes, change: Callable[[bytes], bytes]) -> Parts:
    """The same message with another body in its parts of this kind; names are digests, so they follow."""
    renamed: dict[str, str] = {}
    found: Parts = {}
    for name, content in parts.items():
        for old, new in renamed.items():
            content = content.replace(old.encode(), new.encode())
        if content.startswith(kind + b" "):
            head, _, body = content.partition(b"\0")
            body = change(body)
            _, children, _ = head.split(b" ")
            content = b" ".join([kind, children, str(len(body)).encode()]) + b"\0" + body
        renamed[name] = hashlib.sha256(content).hexdigest()
        found[renamed[name]] = content
    return found


def naming_one_part(parts: Parts, times: int) -> Parts:
    """The same message, whose array names its first part so often."""

    def change(body: bytes) -> bytes:
        return json.dumps({**json.loads(body), "arraychunk_ids": [0] * times}).encode()

    return rewritten(parts, b"Array", change)


def of_numbers(parts: Parts, number: int) -> Parts:
    """The same message, whose list of numbers has so many; Flower would look at each of them for minutes."""

    def change(body: bytes) -> bytes:
        record = ProtoConfigRecord.FromString(body)
        record.items[0].value.sint_list.vals.extend([1] * (number - 1))
        return record.SerializeToString()

    return rewritten(parts, b"ConfigRecord", change)


def random_bytes(number: int) -> bytes:
    import numpy as np

    return np.random.default_rng(0).bytes(number)


def case(name: str, mebibytes: int, times: int) -> tuple[Message, Parts]:
    if name == "config":
        head, parts = parts_of(RecordDict({"fedboard": ConfigRecord({"many": [1]})}))
        return head, of_numbers(parts, mebibytes * MIB)
    head, parts = parts_of(record_of(random_bytes(mebibytes * MIB)))
    return head, naming_one_part(parts, times) if name == "repeated" else parts


class Link:
    """A server that hands out one message."""

    def __init__(self, head: Message, parts: Parts) -> None:
        self.parts, self.fetched = parts, 0
        names = list(parts)
        self.tree = ObjectTree(object_id=names[-1], children=[ObjectTree(object_id=n) for n in names[:-1]])
        self.head = message_to_proto(remove_content_from_message(head))

    def PullMessages(self, request: Any) -> PullMessagesResponse:  # noqa: N802
        return PullMessagesResponse(messages_list=[self.head], message_object_trees=[self.tree])

    def PullObject(self, request: Any) -> PullObjectResponse:  # noqa: N802
        content = self.parts[request.object_id]
        self.fetched += len(content)
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request: Any) -> None: ...  # noqa: N802


def by_flower(link: Link, largest: int, folder: Path) -> str:
    """As a device read it that left it to Flower."""
    pull_and_inflate_object_from_tree(link.tree, link.parts.__getitem__, lambda _: None)
    return "read"


def by_device(link: Link, largest: int, folder: Path) -> str:
    connection = Connection(
        address="127.0.0.1:1",
        root_certificate=(folder / "authority.pem").read_text(),
        private_key=load_private_key(folder / "node.key"),
        largest=largest,
    )
    connection.__dict__["_client"] = link
    try:
        message = connection.receive()
        assert message is not None
        content = frame_of(message.content)
        assert content is not None
        Asker(server=QuestionKey().public, largest=largest).content(content)
    except UnreadMessageError as error:
        return error.code.value
    except RefusedError as error:
        return error.code.value
    return "read"


READERS: dict[str, Callable[[Link, int, Path], str]] = {"flower": by_flower, "device": by_device}


def resident(name: str) -> int:
    """Of this process, bytes: ``VmRSS`` for now, ``VmHWM`` for the most since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def main() -> None:
    name, reader, mebibytes, times, folder = sys.argv[1:]
    head, parts = case(name, int(mebibytes), int(times))
    link, sent = Link(head, parts), sum(map(len, parts.values()))
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: what was needed to prepare is over
    before = resident("VmRSS")
    outcome = READERS[reader](link, 64 * MIB, Path(folder))
    print(
        json.dumps(
            {
                "sent": sent,
                "fetched": link.fetched,
                "before": before,
                "grown": resident("VmHWM") - before,
                "outcome": outcome,
            }
        )
    )


if __name__ == "__main__":
    main()
