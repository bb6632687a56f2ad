"""Noise: where it comes from, what kind it is, and what stands in its place where clients add it.

Standard normal draws from AES-256 in counter mode, addressable by coordinate: that nobody can reproduce, or a
simulation's.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.kernels.draws import standard_normal
from fedboard.common.privacy.events import Event, digest

if TYPE_CHECKING:
    from fedboard.common.privacy.ledger.ledger import Receipt

_KEY_BYTES = 32  # AES-256
_WORDS_PER_BLOCK = 2  # an AES block is 128 bits
_WORDS_PER_CHUNK = 1 << 16  # stays in cache
_SHARES = "shares of the clients"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseStream:
    """An endless row of standard normal draws; draw number k is a function of the key and k alone.

    Guarantee: any split of a range into calls, in any order and in any process, gives the same draws. There
    is no buffer and no position, so a forked or pickled copy cannot repeat or skip noise by accident.
    Not guaranteed: any privacy; a stream of this very class may have any key. See ``SecretStream``.
    """

    private: ClassVar[bool] = False
    """Whether nobody can know the key."""
    key: bytes = field(repr=False)
    """32 bytes. Secret in a private run; never printed."""

    def bits(self, offset: int, count: int) -> BitArray:
        """Random words ``offset:offset + count`` of the stream, uint64, shape (count,).

        Raises:
            InputError: a negative offset or count.
            FedboardError: the package ``cryptography`` is missing.
        """
        if offset < 0 or count < 0:
            raise InputError(f"offset and count must be >= 0, got {offset} and {count}")
        block, skipped = divmod(offset, _WORDS_PER_BLOCK)
        cipher = _counter_mode_cipher(self.key, block)
        padded = -(-(skipped + count) // _WORDS_PER_BLOCK) * _WORDS_PER_BLOCK
        words = np.empty(padded + _WORDS_PER_BLOCK, dtype="<u8")  # the cipher asks for room for a block more
        room, zeros = words.data.cast("B"), memoryview(_zeros())
        for start in range(0, padded, _WORDS_PER_CHUNK):
            length = 8 * min(_WORDS_PER_CHUNK, padded - start)
            cipher.update_into(zeros[:length], room[8 * start :])
        return words[skipped : skipped + count].astype(np.uint64, copy=False)

    def normal(self, offset: int, count: int) -> FloatArray:
        """Standard normal draws ``offset:offset + count`` of the stream, float64, shape (count,).

        One 64-bit word a draw, by inverse distribution function with a sign bit and 63 bits of tail
        probability.
        """
        draws = np.empty(count, dtype=np.float64)
        for start in range(0, count, _WORDS_PER_CHUNK):
            part = draws[start : start + _WORDS_PER_CHUNK]
            part[:] = standard_normal(self.bits(offset + start, part.size), backend=noise_backend())
        return draws


class SecretStream(NoiseStream):
    """A stream whose key came from the operating system and is held by this object alone.

    Only such a stream can draw the noise of a release that is booked as private.
    """

    __slots__ = ()
    private: ClassVar[bool] = True

    @classmethod
    def fresh(cls) -> "SecretStream":
        """A stream that nobody can reproduce."""
        return cls(key=os.urandom(_KEY_BYTES))


class SeededStream(NoiseStream):
    """A stream whose key follows from a public seed: for simulations, never private."""

    __slots__ = ()

    @classmethod
    def of(cls, seed: int, name: str) -> "SeededStream":
        """The stream of this seed and name; the same one each time."""
        text = f"fedboard seeded noise\0{seed}\0{name}"
        return cls(key=hashlib.sha256(text.encode()).digest())


class NoiseSource(Protocol):
    """Where the noise of a run comes from. Every release asks for its own stream, by name."""

    @property
    def private(self) -> bool:
        """Whether the draws are unpredictable, so that the guarantee holds; the streams must agree."""
        ...

    @property
    def label(self) -> str:
        """What ledger and certificate say about the source."""
        ...

    def describe(self) -> dict[str, Any]:
        """Public JSON fields that an event carries about its noise: at least ``noise`` and ``private``."""
        ...

    def stream(self, name: str) -> NoiseStream:
        """The stream of one release."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureNoise:
    """Noise for private runs: each stream has a fresh key from the operating system.

    Guarantee: asking twice for one name gives independent streams; nothing about the keys is recorded.
    """

    private: ClassVar[bool] = True
    label: ClassVar[str] = "secure: AES-256 in counter mode, keys from the operating system"

    def describe(self) -> dict[str, Any]:
        """Public fields for the event."""
        return {"noise": self.label, "private": self.private}

    def stream(self, name: str) -> SecretStream:
        """A stream that nobody can reproduce; ``name`` is not used."""
        return SecretStream.fresh()


@dataclass(frozen=True, slots=True)
class SeededNoise:
    """Noise for simulations that must be repeatable.

    Not guaranteed: any privacy, since whoever knows the seed can subtract the noise; events and certificates
    say so.
    """

    private: ClassVar[bool] = False
    label: ClassVar[str] = "seeded: simulation only, not private"

    seed: int
    """Public."""

    def describe(self) -> dict[str, Any]:
        """Public fields for the event, with the seed, so that only the same noise counts as the same
        release.
        """
        return {"noise": self.label, "private": self.private, "seed": self.seed}

    def stream(self, name: str) -> SeededStream:
        """The stream of this seed and name; the same one each time."""
        return SeededStream.of(self.seed, name)


def noise_problems(event: Mapping[str, Any]) -> list[str]:
    """Say what is wrong with what an event states about its noise; empty where nothing is.

    Only the one source that is known to be secret may be private, and it names no seed; one whose noise comes in
    shares says how many.
    """
    label, private = event.get("noise"), event.get("private")
    if not isinstance(label, str) or not isinstance(private, bool):
        return ["the noise source is not stated"]
    if "shares" in event:
        stated = event["shares"]
        of_shares = shared_label(stated.get("least") if isinstance(stated, Mapping) else None, "")
        if not label.startswith(of_shares):
            return ["the event states noise shares, and its noise source other ones or none"]
        label = label.removeprefix(of_shares)
    elif label.startswith(_SHARES):
        return ["the noise source states shares, and the event none"]
    if private and ("seed" in event or label != SecureNoise.label):
        return ["noise from a seed, or from a source that nobody knows, is stated as private"]
    return []


def shared_label(least: int | None, label: str) -> str:
    """What is said of a source whose noise the clients add: so many honest shares, each from such a source."""
    return f"{_SHARES}, at least {least} of them honest, each {label}"


@cache
def noise_backend() -> str:
    """The kernels that turn bits into draws: a property of the installation, not of a run."""
    return "compiled" if find_spec("numba") else "numpy"


@cache
def _zeros() -> bytes:
    """What the cipher is given to encrypt, a chunk of it; made once, since it is as long as the noise."""
    return bytes(8 * _WORDS_PER_CHUNK)


def _counter_mode_cipher(key: bytes, block: int) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise FedboardError("noise needs cryptography: pip install '.[server]' in the checkout") from None
    return Cipher(algorithms.AES256(key), modes.CTR(block.to_bytes(16, "big"))).encryptor()


class Protection(StrEnum):
    """What stands between a board and the ratings that it was made from."""

    PRIVATE = "private"
    """Noise that nobody can reproduce, in every release."""
    SIMULATION = "simulation"
    """Noise of which some follows from a seed: whoever has the seed subtracts it."""
    NO_DATA = "no-data"
    """Nothing: no rating was looked at yet."""
    UNSTATED = "unstated"
    """Nobody says: there is no certificate, or none that can be read."""

    @property
    def verdict(self) -> str:
        """One plain sentence."""
        return _VERDICTS[self]


_VERDICTS = {
    Protection.PRIVATE: "private: no seed reproduces the noise of any of its releases",
    Protection.SIMULATION: "NOT PRIVATE: the noise can be reproduced from its seed",
    Protection.NO_DATA: "no data: nothing was released yet",
    Protection.UNSTATED: "NOT PRIVATE: no certificate says which noise is in it",
}


def protection_of(releases: Iterable[Mapping[str, Any]]) -> Protection:
    """What the noise of these releases is; one release with seeded noise makes all of it a simulation.

    Args:
        releases: as booked, or as a certificate lists them. Public.

    Not guaranteed: that they were booked truthfully; a stream that follows from a seed cannot be booked as secret
    by this package.
    """
    booked = list(releases)
    if not booked:
        return Protection.NO_DATA
    secret = all(event.get("private") is True and not noise_problems(event) for event in booked)
    return Protection.PRIVATE if secret else Protection.SIMULATION


class AbsentStream(NoiseStream):
    """The place of a stream where the noise is in the sums already: nothing can be drawn from it."""

    __slots__ = ()

    def bits(self, offset: int, count: int) -> BitArray:
        """Refuse: noise that is drawn here would not be the clients'.

        Raises:
            PrivacyError: always.
        """
        raise PrivacyError(
            "the noise of this release comes in shares from its clients; none of it is drawn here"
        )

    @classmethod
    def of(cls, *, private: bool) -> "AbsentStream":
        """One whose clients' noise is private, or seeded."""
        return (_SecretShares if private else AbsentStream)(key=b"")


class _SecretShares(AbsentStream):
    __slots__ = ()
    private: ClassVar[bool] = True


def least_shares(event: Mapping[str, Any]) -> int:
    """How many honest shares a sound event says to be in its sum; 0 where the server draws the noise."""
    return int(event["shares"]["least"]) if "shares" in event else 0


def require_paid(stated: Mapping[str, Any], event: Event, receipt: "Receipt", stream: NoiseStream) -> None:
    """Hold a receipt against what a release states and against the noise that it will draw.

    Args:
        stated: the release's own event. Public.
        event: what was booked, with the noise source. Public.
        receipt: the ledger's.
        stream: where the draws will come from.

    Raises:
        PrivacyError: the receipt is for another event than the noise of this release, noise from a seed is
            booked as private, or noise that clients add as drawn here or the other way round.
    """
    name = stated["name"]
    differs = any(event.get(key) != value for key, value in stated.items())
    if differs or receipt.event_digest != digest(event):
        raise PrivacyError(f"the receipt of release {name!r} is for another release")
    if stream.private is not event.get("private"):
        raise PrivacyError(
            f"release {name!r} is booked as {'' if event.get('private') else 'not '}private, "
            "its noise is of the other kind"
        )
    if isinstance(stream, AbsentStream) is not ("shares" in event):
        raise PrivacyError(
            f"release {name!r} is booked with noise {'of its clients' if 'shares' in event else 'drawn here'}, "
            "and is given the other kind"
        )
