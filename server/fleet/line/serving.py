"""The door's end of the line: a socket in a folder of this account alone; the state folder tells where."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from fedboard.common.files import write_atomically
from fedboard.server.fleet.door.mailbox import Mailbox, Message
from fedboard.server.fleet.line.messages import (
    LENGTH_BYTES,
    SAID,
    Answered,
    Ask,
    End,
    Fetch,
    LineError,
    Present,
    Reply,
    Said,
    framed,
    length_of,
)

_PREFIX = "fedboard-line-"
_SOCKET = "socket"


@asynccontextmanager
async def line(place: Path, mailbox: Mailbox, present: Callable[[], Iterable[bytes]]) -> AsyncIterator[None]:
    """Serve the round loop while the block runs.

    A socket's path may have about a hundred bytes, and that of a state folder has often more; so it is in a
    temporary folder that no other account can enter.

    Args:
        place: file that tells where the socket is.
        mailbox: work and answers.
        present: public keys of the devices that are there.
    """
    _forget(place)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    ends = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        ends.add(task)
        try:
            with suppress(asyncio.IncompleteReadError, OSError, LineError, msgspec.MsgspecError):
                while True:
                    length = length_of(await reader.readexactly(LENGTH_BYTES))
                    said = SAID.decode(await reader.readexactly(length))
                    writer.write(framed(_reply(said, mailbox, present)))
                    await writer.drain()
        finally:
            ends.discard(task)
            writer.close()

    try:
        server = await asyncio.start_unix_server(serve, folder / _SOCKET)
        write_atomically(place, str(folder / _SOCKET).encode())
        try:
            yield
        finally:
            server.close()
            for task in list(ends):
                task.cancel()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reply(said: Said, mailbox: Mailbox, present: Callable[[], Iterable[bytes]]) -> Reply:
    match said:
        case Present():
            return Reply(epoch=mailbox.epoch, present=[key.decode() for key in present()])
        case Ask():
            messages = [Message(said.kind, frame, said.beside) for frame in said.frames]
            asked = {key.encode(): messages[number] for key, number in said.to.items()}
            mailbox.ask(said.asking, asked, after=said.after, largest=said.largest, seconds=said.seconds)
        case Fetch():
            found = mailbox.fetch(said.asking, after=said.after, most_bytes=said.most_bytes)
            answers = [Answered(one.number, one.key.decode(), one.content) for one in found]
            return Reply(epoch=mailbox.epoch, answers=answers)
        case End():
            mailbox.end()
    return Reply(epoch=mailbox.epoch)


def _forget(place: Path) -> None:
    """Remove what a door that was killed has left."""
    with suppress(OSError, UnicodeDecodeError):
        folder = Path(place.read_text(encoding="utf-8")).parent
        if folder.name.startswith(_PREFIX) and folder.owner() == place.owner():
            shutil.rmtree(folder, ignore_errors=True)
