"""Following a run for a tracker: what is new in its state passes the gate, or is left out with a sentence."""

from collections.abc import Callable, Sequence
from itertools import groupby

from fedboard.common.errors import FedboardError, PrivacyError
from fedboard.common.wire.live.feed import State, Watcher
from fedboard.server.operating.live.run_source import RunSource
from fedboard.server.operating.tracking.gate import Gate
from fedboard.server.operating.tracking.numbers import Number, numbers_of
from fedboard.server.operating.tracking.sinks import About, Sink

_SETTINGS = ("epsilon", "delta", "adjacency")


class Follower:
    """Tells sinks what is new in a run, in a thread of its own, until the block ends.

    Guarantee: a number reaches a sink only through ``Gate.require``. A sink that fails ends the following with a
    sentence, and never the run.
    """

    def __init__(
        self, source: RunSource, opened: Sequence[Callable[[About], Sink]], *, say: Callable[[str], None]
    ) -> None:
        """Make ready; sinks are opened with the first number.

        Args:
            source: what is read of the run.
            opened: how each sink is opened.
            say: takes sentences for whoever runs it.
        """
        self._source, self._opened, self._say = source, opened, say
        self._gate = Gate(source.files.ledger, simulation=source.extra is not None)
        self._sinks: list[Sink] = []
        self._told: set[tuple[str, int]] = set()
        self._broken = False

    def __enter__(self) -> "Follower":
        """Start."""
        self._watcher = Watcher(self._source, self._tell).__enter__()
        return self

    def __exit__(self, *ended: object) -> None:
        """Tell what is left, and close the sinks."""
        self._watcher.__exit__(*ended)
        for sink in self._sinks:
            self._guarded(sink.close)

    def _tell(self, state: State) -> None:
        if not self._broken:
            self._guarded(lambda: self._take(state))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Whatever a tracker's package raises is its own trouble, and not the run's."""
        try:
            work()
        except FedboardError as error:
            self._say(f"tracking: {error}")
        except Exception as error:
            self._broken = True
            self._say(f"tracking has ended: {type(error).__name__}: {error}")

    def _take(self, state: State) -> None:
        new = [number for number in numbers_of(state) if (number.label, number.step) not in self._told]
        if not new:
            return
        self._gate.read()
        entitled = [number for number in new if self._is_entitled(number)]
        self._told |= {(number.label, number.step) for number in new}
        self._open(state)
        by_step = sorted(entitled, key=lambda number: number.step)
        for step, numbers in groupby(by_step, key=lambda number: number.step):
            values = {number.label: number.value for number in numbers}
            for sink in self._sinks:
                sink.log(step, values)

    def _is_entitled(self, number: Number) -> bool:
        try:
            self._gate.require(number)
        except PrivacyError as error:
            self._say(f"tracking: {error}")
            return False
        return True

    def _open(self, state: State) -> None:
        if self._sinks:
            return
        board = state.get("board") or {}
        settings = {name: str(state["budget"][name]) for name in _SETTINGS}
        settings |= {"algorithm": str(board.get("task", "")), "noise": str(state["noise"]["protection"])}
        about = About(name=str(state["name"]), folder=self._source.files.folder, settings=settings)
        self._sinks = [opened(about) for opened in self._opened]
