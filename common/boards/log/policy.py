"""Whom one believes that everybody sees the same log: a policy file as c2sp.org/tlog-policy writes it.

::

    log boards.example.org/films+...
    witness one w1.example+... https://w1.example
    witness two w2.example+... https://w2.example
    witness three w3.example+... https://w3.example
    witness four w4.example+... https://w4.example
    group most 3 one two three four
    quorum most

The server asks the witnesses that have an address; readers check the same file, and need no address.

**How many may lie.** Any two quorums share at least ``overlap`` witnesses. An operator who shows two logs needs two
quorums, and a witness that is honest cosigns one of them, so ``overlap - 1`` may lie: of k out of n, 2 k - n - 1.
Two out of three bear none, three out of four one, five out of seven two.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.boards.log.checkpoints import Checkpoint, cosigned_at
from fedboard.common.boards.log.notes import Kind, Note, NoteError, VerifierKey
from fedboard.common.errors import InputError

_MOST = 64
_NONE = "none"


@dataclass(frozen=True, slots=True)
class Witness:
    """Who cosigns."""

    name: str
    """In this file alone."""
    key: VerifierKey
    url: str | None = None
    """Where it is asked to: ``URL/add-checkpoint``."""


@dataclass(frozen=True, slots=True)
class Group:
    """So many of these, witnesses or groups; each is in one group at most."""

    least: int
    members: "tuple[Group | str, ...]"

    def is_met(self, cosigned: frozenset[str]) -> bool:
        """Whether these witnesses, by name, suffice."""
        met = (one in cosigned if isinstance(one, str) else one.is_met(cosigned) for one in self.members)
        return sum(met) >= self.least

    @property
    def overlap(self) -> int:
        """Fewest witnesses that any two sets which suffice have in common."""
        shared = max(2 * self.least - len(self.members), 0)
        each = sorted(1 if isinstance(one, str) else one.overlap for one in self.members)
        return sum(each[:shared])


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessPolicy:
    """One log, its witnesses, and which of them suffice.

    Guarantee: two checkpoints of the log that both suffice are of one tree, as long as no more than ``bears`` of
    the witnesses lie, whatever the log does.
    Not guaranteed: that what is in the log is right; that there is no later checkpoint.
    """

    log: VerifierKey
    witnesses: tuple[Witness, ...]
    quorum: Group

    @property
    def bears(self) -> int:
        """How many witnesses may lie."""
        return self.quorum.overlap - 1

    def cosigners(self, note: Note) -> frozenset[str]:
        """Which witnesses cosigned a checkpoint, by their names here.

        Raises:
            NoteError: a signature is not its key's.
        """
        return frozenset(one.name for one in self.witnesses if cosigned_at(note, one.key) is not None)

    def suffices(self, note: Note) -> bool:
        """Whether a checkpoint is the log's, and seen by witnesses that suffice.

        Raises:
            NoteError: it is none, or a signature is not its key's.
        """
        named = Checkpoint.parse(note.text).origin == self.log.name
        return named and note.signed_by(self.log) and self.quorum.is_met(self.cosigners(note))

    @property
    def sentence(self) -> str:
        """How many there are, and how many may lie."""
        many = f"{len(self.witnesses)} witness{'' if len(self.witnesses) == 1 else 'es'}"
        lie = "none of them may lie" if self.bears == 0 else f"{self.bears} of them may lie"
        return f"{many} of the log {self.log.name}; {lie}"

    @classmethod
    def read(cls, path: Path) -> "WitnessPolicy":
        """Read a policy file.

        Raises:
            InputError: it cannot be read, or is none that keeps two logs apart; names the line.
        """
        try:
            text = path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: no policy of witnesses can be read there ({error})") from error
        try:
            return cls.parse(text)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error

    @classmethod
    def parse(cls, text: str) -> "WitnessPolicy":
        """Read a policy.

        Raises:
            NoteError: a line cannot be read, or it would not keep two logs apart.
        """
        reading = _Reading()
        for number, words in _lines(text):
            try:
                reading.take(words)
            except NoteError as error:
                raise NoteError(f"line {number}: {error}") from error
        return reading.policy()

    @property
    def text(self) -> str:
        """As ``parse`` reads it."""
        lines = [f"log {self.log}"]
        lines += [f"witness {w.name} {w.key}{f' {w.url}' if w.url else ''}" for w in self.witnesses]
        groups: list[str] = []
        lines += [*_group_lines(self.quorum, groups), f"quorum {groups[-1]}"]
        return "".join(f"{line}\n" for line in lines)


def most_of(log: VerifierKey, witnesses: tuple[Witness, ...], *, least: int) -> WitnessPolicy:
    """The policy that so many of these witnesses suffice.

    Raises:
        NoteError: so few that two sets without a common witness would.
    """
    group = " ".join(("group enough", str(least), *(one.name for one in witnesses)))
    listed = [f"witness {one.name} {one.key} {one.url or ''}" for one in witnesses]
    return WitnessPolicy.parse("\n".join([f"log {log}", *listed, group, "quorum enough"]))


class _Reading:
    """What was read so far."""

    def __init__(self) -> None:
        self._logs: list[VerifierKey] = []
        self._witnesses: dict[str, Witness] = {}
        self._groups: dict[str, Group] = {}
        self._placed: set[str] = set()
        self._quorum: str | None = None

    def take(self, words: list[str]) -> None:
        """Take a line in."""
        rules: Mapping[str, tuple[int, int]] = {"log": (1, 2), "witness": (2, 3), "quorum": (1, 1)}
        word, *rest = words
        least, most = rules.get(word, (3, _MOST + 2))
        if word not in (*rules, "group") or not least <= len(rest) <= most:
            raise NoteError(
                "a policy has lines log KEY [URL], witness NAME KEY [URL], group NAME K NAME..., quorum NAME"
            )
        take: Mapping[str, Callable[..., None]] = {
            "log": self._log,
            "witness": self._witness,
            "group": self._group,
            "quorum": self._choose,
        }
        take[word](*rest)

    def _log(self, key: str, url: str | None = None) -> None:
        self._logs.append(VerifierKey.parse(key, kind=Kind.NOTE))

    def _witness(self, name: str, key: str, url: str | None = None) -> None:
        self._require_free(name)
        found = VerifierKey.parse(key, kind=Kind.COSIGNATURE)
        if any(one.key.raw == found.raw for one in self._witnesses.values()):
            raise NoteError(f"the key of {name} is that of another witness")
        if len(self._witnesses) >= _MOST:
            raise NoteError(f"more than {_MOST} witnesses")
        self._witnesses[name] = Witness(name, found, url)

    def _group(self, name: str, least: str, *names: str) -> None:
        self._require_free(name)
        for one in names:
            if one not in self._witnesses and one not in self._groups:
                raise NoteError(f"{one} is no witness or group of a line before")
            if one in self._placed:
                raise NoteError(f"{one} is in a group already")
            self._placed.add(one)
        whole = least.isascii() and least.isdigit() and len(least) < 10
        number = {"all": len(names), "any": 1}.get(least) or (int(least) if whole else 0)
        if not 1 <= number <= len(names):
            raise NoteError(f"a group needs all, any, or a number in [1, {len(names)}], got {least!r}")
        self._groups[name] = Group(number, tuple(self._groups.get(one, one) for one in names))

    def _choose(self, name: str) -> None:
        if self._quorum is not None:
            raise NoteError("a second quorum")
        if name != _NONE and name not in self._witnesses and name not in self._groups:
            raise NoteError(f"{name} is no witness or group of a line before")
        self._quorum = name

    def _require_free(self, name: str) -> None:
        if name == _NONE or name in self._witnesses or name in self._groups:
            raise NoteError(f"the name {name} is taken")

    def policy(self) -> WitnessPolicy:
        """All of it."""
        if len(self._logs) != 1:
            raise NoteError(
                "name one log: with two, its operator could show one to you and the other to others"
            )
        if self._quorum in (None, _NONE):
            raise NoteError("a quorum is missing: a line `quorum NAME` of a witness or a group")
        quorum = self._groups.get(str(self._quorum)) or Group(1, (str(self._quorum),))
        if quorum.overlap < 1:
            raise NoteError(
                "two sets of witnesses without a common one would suffice, so the operator could show two logs; "
                "ask for more than half of them"
            )
        return WitnessPolicy(log=self._logs[0], witnesses=tuple(self._witnesses.values()), quorum=quorum)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each line that says something, with its number."""
    for number, line in enumerate(text.split("\n"), start=1):
        if any((ord(sign) < 0x20 and sign != "\t") or ord(sign) == 0x7F for sign in line):
            raise NoteError(f"line {number}: a control character")
        words = line.replace("\t", " ").split(" ")
        words = [word for word in words if word]
        if words and not words[0].startswith("#"):
            yield number, words


def _group_lines(group: Group, names: list[str]) -> Iterator[str]:
    inside = []
    for one in group.members:
        if isinstance(one, str):
            inside.append(one)
        else:
            yield from _group_lines(one, names)
            inside.append(names[-1])
    names.append(f"group-{len(names) + 1}")
    yield f"group {names[-1]} {group.least} {' '.join(inside)}"
