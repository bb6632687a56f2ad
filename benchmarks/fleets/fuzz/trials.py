"""One parser, one message: a value, a refusal, or something that must not be; and mutants that lead on.

Guided by branches of the product's code, and by where messages are refused: each refusal has a place (the lines
of the product that it went through, and the words without their numbers), each value one of its own. A mutant that
goes through a branch, or comes to a place, where none was before is kept, and mutated further.
"""

import random
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from fleets.fuzz.branches import Branches
from fleets.fuzz.documents import Form
from fleets.fuzz.mutations import Mutator

MOST_KEPT = 500
"""Mutants of a parser that others are made from."""
_LONGEST_MUTATION = 5.0
"""Seconds of processor time."""
_FRESH = 0.35
"""Share of mutants that are made from specimens, whatever was kept."""
_VARIABLE = re.compile(r"[0-9]+|'[^']*'|\"[^\"]*\"|0x[0-9a-f]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """Something that reads what others wrote."""

    name: str
    """``who/what``: who reads, and what."""
    read: Callable[[bytes], object]
    refusals: tuple[type[BaseException], ...]
    """What it may raise, as its documentation says."""
    specimens: tuple[bytes, ...]
    """Messages that it reads."""
    form: str | Form | None = None
    """Or its name in ``FORMS`` of ``documents.py``."""
    share: float = 1.0
    """Of the messages, among parsers; less where one takes long."""
    longest_sleep: float = 4.0
    """Seconds that a message may wait for something other than a processor."""


class HangError(BaseException):
    """A message takes too long; no parser may catch it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one message."""

    kind: str
    """``value``, ``refused``, ``crash`` or ``hang``."""
    place: str
    """Where it ended; the same for messages that ended in the same way."""
    detail: str = ""
    """Of a crash, for people."""


@dataclass(slots=True, kw_only=True)
class Hunt:
    """All trials of one parser in one process."""

    parser: Parser
    seconds: float
    """Of processor time that a message may take."""
    rng: random.Random
    kept: list[bytes] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    branches: Branches = field(default_factory=Branches)

    def begin(self) -> list[tuple[bytes, Outcome]]:
        """Try the specimens; those that are not read are returned, since mutants of them would say little."""
        outcomes = [(content, tried(self.parser, content, self.seconds)) for content in self.parser.specimens]
        self.seen |= {outcome.place for _, outcome in outcomes}
        return [(content, outcome) for content, outcome in outcomes if outcome.kind != "value"]

    def mutants(self) -> Iterator[bytes]:
        """Without end; what was kept in the meantime is mutated too."""
        mutator = Mutator(self.parser.form, self.rng)
        while True:
            pool = self.kept if self.kept and self.rng.random() > _FRESH else self.parser.specimens
            try:
                with _alarm(_LONGEST_MUTATION):
                    made = mutator.mutant(self.rng.choice(pool), self.rng.choice(self.parser.specimens))
            except (
                HangError,
                MemoryError,
            ):  # documents within documents can become large: no fault of a parser
                continue
            yield made

    def take(self, content: bytes) -> Outcome:
        """Try a mutant, and keep it if it came to a new place or went there by a new branch."""
        before = self.branches.found
        with self.branches.watched():
            outcome = tried(self.parser, content, self.seconds)
        if outcome.kind == "hang":  # following takes time, too
            outcome = tried(self.parser, content, self.seconds)
        if outcome.place not in self.seen or self.branches.found > before:
            self.seen.add(outcome.place)
            if outcome.kind in ("value", "refused"):
                self._keep(content)
        return outcome

    def _keep(self, content: bytes) -> None:
        if len(self.kept) < MOST_KEPT:
            self.kept.append(content)
        else:
            self.kept[self.rng.randrange(MOST_KEPT)] = content


def tried(parser: Parser, content: bytes, seconds: float) -> Outcome:
    """Let a parser read a message."""
    began, clock = time.process_time(), _Waiting()
    try:
        with _alarm(seconds):
            found = parser.read(content)
        outcome = Outcome("value", f"value {found if isinstance(found, Enum) else type(found).__name__}")
    except parser.refusals as error:
        outcome = Outcome("refused", _place(error))
    except HangError as error:
        outcome = Outcome("hang", f"hang {_lines(error.__traceback__)}")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # that is what is looked for
        outcome = Outcome("crash", f"crash {_place(error)}", _shown(error))
    took = time.process_time() - began
    if took > seconds and outcome.kind != "hang":  # in one call of a library, which no alarm ends
        return Outcome("hang", f"hang {outcome.place}", f"{took:.1f} s")
    if outcome.kind != "hang" and (slept := clock.seconds()) > parser.longest_sleep:
        return Outcome(
            "hang", f"asleep {outcome.place}", f"waited {slept:.1f} s for nothing that this machine did"
        )
    return outcome


class _Waiting:
    """For how long this thread has waited for something other than a processor: a lock, a timeout, a sleep."""

    def __init__(self) -> None:
        self._began, self._running = time.monotonic(), _at_the_processor()

    def seconds(self) -> float:
        """Since it was made."""
        passed = time.monotonic() - self._began
        return passed - (_at_the_processor() - self._running)


def _at_the_processor() -> float:
    """Seconds that this thread ran, or was ready to and waited for its turn; 0 where the system does not say."""
    try:
        ran, ready, _ = Path("/proc/thread-self/schedstat").read_bytes().split()
    except OSError:
        return 0.0
    return (int(ran) + int(ready)) / 1e9


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """By processor time, so that a busy machine makes no parser slow."""

    def ring(_: int, __: Any) -> NoReturn:
        raise HangError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _place(error: BaseException) -> str:
    """Kinds of errors, words and lines, with those of the error that led to it."""
    parts, inner = [], error
    for _ in range(4):
        words = _VARIABLE.sub("_", str(getattr(inner, "code", None) or inner)[:200])
        parts.append(f"{type(inner).__name__}({words}) {_lines(inner.__traceback__)}")
        following = inner.__cause__ or inner.__context__
        if following is None:
            break
        inner = following
    return " < ".join(parts)


def _lines(trace: TracebackType | None) -> str:
    """The last lines that it went through."""
    found: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " ".join(list(dict.fromkeys(found))[-4:])


def _shown(error: BaseException) -> str:
    lines = traceback.format_exception(error, limit=-3)
    text = "".join(lines)
    return text if len(text) < 2000 else f"{text[:800]}\n...\n{text[-1000:]}"


def quiet() -> None:
    """No words of parsers, and nesting as deep as usual."""
    import warnings

    warnings.simplefilter("ignore")
    sys.setrecursionlimit(1000)
