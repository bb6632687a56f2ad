"""Somebody who looks all the time: a reader over TLS who relies on witnesses; samples of memory, files, devices."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.retrying import Patience
from fedboard.client.boards.sources import open_source
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.log.policy import WitnessPolicy
from fedboard.common.boards.refusals import FeedRefusedError
from fedboard.common.errors import FedboardError
from fleets.chaos.checks import Reader
from fleets.soak.files import Files, Size
from fleets.soak.fleet import WeekFleet
from fleets.soak.memory import Memory

_SAMPLE_SECONDS, _READ_SECONDS, _FILES_SECONDS = 1.0, 2.5, 5.0


class FarReader:
    """A reader who has pinned the first root and names the witnesses; she fetches over TLS and never goes back."""

    def __init__(self, fleet: WeekFleet) -> None:
        """Nothing was fetched."""
        self.seen: dict[int, str] = {}
        """Version to the digest that she was given, verified."""
        self.refused: Counter[str] = Counter()
        self.problems: list[str] = []
        self.newest = -1
        self._place = f"127.0.0.1:{fleet.board_port}"
        self._authority, self._folder = fleet.folder / "authority.pem", fleet.folder.parent / "reader"
        self._pinned, self._policy = PinnedKey.read(fleet.pinned), WitnessPolicy.read(fleet.policy)

    def look(self) -> bool:
        """Fetch what is newest; False where it was refused, with the code counted."""
        try:
            source = open_source(self._place, authority=self._authority, seconds=5.0)
            try:
                feed = BoardFeed(
                    source,
                    self._pinned,
                    BoardCache(self._folder),
                    patience=Patience(attempts=1),
                    witnesses=self._policy,
                )
                manifest = feed.fetch().manifest
            finally:
                source.close()
        except FeedRefusedError as error:
            self.refused[error.code.value] += 1
            return False
        except (FedboardError, OSError) as error:
            self.refused[type(error).__name__] += 1
            return False
        known = self.seen.setdefault(manifest.version, manifest.board_digest)
        if known != manifest.board_digest:
            self.problems.append(f"the reader was given two boards of version {manifest.version}")
        if manifest.version < self.newest:
            self.problems.append(f"the reader was given board {manifest.version} after board {self.newest}")
        self.newest = max(self.newest, manifest.version)
        return True


class Devices:
    """Which board each device holds; none goes back."""

    def __init__(self, fleet: WeekFleet) -> None:
        """Nothing was looked at."""
        self.newest: dict[str, int] = {}
        self.problems: list[str] = []
        self._fleet = fleet

    def look(self) -> None:
        """One sample of each."""
        for name in self._fleet.members:
            with suppress(FedboardError, OSError):
                held = BoardCache(self._fleet.folder / name / "boards").boards()
                newest = max((one.version for one in held), default=None)
                if newest is None:
                    continue
                if newest < self.newest.get(name, newest):
                    self.problems.append(f"{name} went back from board {self.newest[name]} to {newest}")
                self.newest[name] = newest


class Watch:
    """A thread that looks, from the first process to the end."""

    def __init__(self, fleet: WeekFleet, began: float, say: Callable[[str], None]) -> None:
        """Nothing was looked at."""
        self.fleet, self.memory, self.files = fleet, Memory(), Files(fleet.folder)
        self.boards = Reader(fleet.fleet.state.run / "boards")
        self.reader, self.devices = FarReader(fleet), Devices(fleet)
        self._began, self._say, self._ended = began, say, threading.Event()
        self._threads = [
            threading.Thread(target=self._every, args=(seconds, look), daemon=True)
            for seconds, look in (
                (_SAMPLE_SECONDS, self._sample),
                (_READ_SECONDS, self.reader.look),
                (_FILES_SECONDS, self._larger),
            )
        ]

    def start(self) -> None:
        """Look from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(20.0)

    def _every(self, seconds: float, look: Callable[[], object]) -> None:
        while not self._ended.wait(seconds):
            try:
                look()
            except Exception as error:
                self._say(f"a look failed: {type(error).__name__}: {error}")

    def _sample(self) -> None:
        self.boards.look()
        self.memory.look(self.fleet.fleet, time.monotonic() - self._began, self.fleet.made())

    def _larger(self) -> None:
        self.devices.look()
        if (size := self.size()) is not None:
            self.files.look(size)

    def size(self) -> Size | None:
        """What sizes depend on now; None where that cannot be read, as on a disk that is full."""
        fleet, lines = self.fleet, self.fleet.lines()
        entries = fleet.folder / "board-log" / "entries"
        with suppress(OSError):
            return Size(
                boards=max(len(self.boards.seen), fleet.made()) + 1,
                releases=max(sum(len(line["releases"]) for line in lines), 2 * len(self.boards.seen)) + 8,
                devices=len(fleet.joined) + 2,
                entries=entries.read_text().count("\nrun ") + 2 if entries.exists() else 2,
                starts=fleet.starts,
                planned=fleet.rounds,
            )
        return None
