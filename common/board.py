"""The board: everything that the server publishes, one immutable file that any mirror can serve.

File layout (that of *safetensors*, so other tools can read it): 8 bytes little-endian header length, a JSON
header naming dtype, shape and offsets of each array, then the raw arrays. The header's ``__metadata__`` holds
the public description. Loading maps the file; arrays are read when they are touched.
"""

import hashlib
import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.errors import InputError
from fedboard.common.files import open_file, write_atomically
from fedboard.common.item_features import CatalogueFeatures, features_from, stored_features
from fedboard.common.privacy.shown import table_html

AnyArray = NDArray[Any]

_DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_ALIGNMENT = 64
_MAX_HEADER_BYTES = 1 << 26
_FORMAT = "fedboard-board-1"
_DESCRIBED: Mapping[str, tuple[type, ...]] = {
    "task": (str,),
    "config": (dict,),
    "previous_digest": (str, type(None)),
    "certificate": (dict, type(None)),
}
_NOT_A_BOARD = (LookupError, ValueError, TypeError, RecursionError, AttributeError, ArithmeticError)
"""What reading something else may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The public list of items. Public by assumption: it does not depend on who rated what."""

    item_ids: tuple[str, ...]
    """Shape (n_items,): the publisher's item ids, in the order of the item numbers."""
    titles: tuple[str, ...] | None = None
    """Shape (n_items,), or None where no titles are known."""
    features: CatalogueFeatures | None = None
    """What else is publicly known of the items, or None."""

    def __post_init__(self) -> None:
        """Check that titles and features pair with ids.

        Raises:
            InputError: another number of titles, or rows of features, than of items.
        """
        if self.features is not None and self.features.n_items != len(self.item_ids):
            raise InputError(
                f"a catalogue needs a row of features per item, got {self.features.n_items} rows for "
                f"{len(self.item_ids)} items"
            )
        if self.titles is not None and len(self.titles) != len(self.item_ids):
            raise InputError(
                f"a catalogue needs one title per item, got {len(self.titles)} titles for {len(self.item_ids)}"
            )

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def without_features(self) -> "Catalogue":
        """For boards of tasks whose devices do not read features."""
        return replace(self, features=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Everything public after a round. Whatever is on it was released through the ledger or is public anyway."""

    version: int
    """Number of rounds behind this board; 0 holds no data."""
    task: str
    """Name of the task that reads and updates it."""
    config: Mapping[str, Any]
    """The task's public configuration, JSON-able."""
    arrays: Mapping[str, AnyArray]
    """Named public arrays (item factors, noisy counts, ...); float32, float64, int32, int64 or uint8."""
    catalogue: Catalogue
    """Its items."""
    previous_digest: str | None = None
    """Of the board before it; None for the first."""
    certificate: Mapping[str, Any] | None = None
    """What is promised, as ``Certificate.to_dict`` gives it; None while there is none."""
    _digest: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """SHA-256 over all of the board but its certificate, hex. It chains to the previous board."""
        if not self._digest:
            self._digest.append(_digest_of(self))
        return self._digest[0]

    def successor(self, **arrays: AnyArray) -> "Board":
        """The next board: these arrays replaced or added, version one up, chained to this one."""
        return replace(
            self,
            version=self.version + 1,
            arrays={**self.arrays, **arrays},
            previous_digest=self.digest,
            certificate=None,
            _digest=[],
        )

    def with_certificate(self, certificate: Mapping[str, Any]) -> "Board":
        """The same board carrying its certificate; the digest does not change."""
        return replace(self, certificate=certificate)

    @property
    def verdict(self) -> str:
        """Whether it is private at all, in a plain sentence, from the certificate that it carries."""
        if self.certificate is None:
            return "NOT PRIVATE: no certificate says which noise is in it" if self.version else "no data yet"
        from fedboard.common.certificate import Certificate  # most readers of boards never ask

        try:
            held = Certificate.from_dict(dict(self.certificate))
        except InputError:
            return "NOT PROVEN: its certificate cannot be read"
        if held.board_digest != self.digest:
            return "NOT PROVEN: its certificate is for another board"
        return held.verdict

    def __repr__(self) -> str:
        """One line."""
        return (
            f"<Board version {self.version} of task {self.task}: {self.catalogue.n_items} items, "
            f"digest {self.digest[:12]}; {self.verdict}>"
        )

    def _repr_html_(self) -> str:
        """A table, for a notebook."""
        shapes = ", ".join(f"{name} {list(values.shape)}" for name, values in sorted(self.arrays.items()))
        claim = (self.certificate or {}).get("statements", ())
        rows = [
            ("task", self.task),
            ("version", f"{self.version}"),
            ("items", f"{self.catalogue.n_items}"),
            ("arrays", shapes),
            ("digest", self.digest),
            *(("promise", str(sentence)) for sentence in list(claim)[:1]),
        ]
        return table_html("Board", self.verdict, rows)

    def save(self, path: Path) -> None:
        """Write the file atomically: it is complete under its name or not there at all."""
        write_atomically(path, _serialise(self))

    def to_bytes(self) -> bytes:
        """The content of the board's file."""
        return _serialise(self)

    @staticmethod
    def from_bytes(content: NDArray[np.uint8], *, max_header: int = _MAX_HEADER_BYTES) -> "Board":
        """Read a board that came as bytes; its arrays are views of them.

        Args:
            content: uint8, shape (n_bytes,).
            max_header: most bytes of its description that are taken, which is what reading it costs.

        Raises:
            InputError: not a complete board, or one with a longer description.
        """
        try:
            return _parse(content, max_header)
        except _NOT_A_BOARD as error:
            raise InputError(f"not a complete fedboard board ({error})") from error

    @staticmethod
    def load(path: Path) -> "Board":
        """Map a board file.

        Raises:
            InputError: the file is missing, cut short or not a board.
        """
        try:
            with open_file(path, largest=None) as stream:
                mapped = np.memmap(stream, dtype=np.uint8, mode="r")
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: no board can be read there ({error})") from error
        try:
            return _parse(mapped)
        except _NOT_A_BOARD as error:
            raise InputError(f"{path}: not a complete fedboard board ({error}); fetch it again") from error


def _stored_arrays(board: Board) -> dict[str, AnyArray]:
    stored = {f"array/{name}": np.ascontiguousarray(value) for name, value in sorted(board.arrays.items())}
    stored["catalogue/item_ids"] = _text(board.catalogue.item_ids)
    if board.catalogue.titles is not None:
        stored["catalogue/titles"] = _text(board.catalogue.titles)
    stored |= stored_features(board.catalogue.features)
    return dict(sorted(stored.items()))  # the digest is over them in this order


def _text(strings: tuple[str, ...]) -> AnyArray:
    return np.frombuffer(json.dumps(strings, ensure_ascii=False).encode(), dtype=np.uint8)


def _strings(encoded: AnyArray) -> tuple[str, ...]:
    strings = json.loads(encoded.tobytes().decode())
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise ValueError("its catalogue is not a list of names")
    "".join(strings).encode()  # raises where the digest could not be taken
    return tuple(strings)


def _description(board: Board) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": board.version,
        "task": board.task,
        "config": dict(board.config),
        "previous_digest": board.previous_digest,
    }


def _canonical(value: Any) -> bytes:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def _digest_of(board: Board) -> str:
    digest = hashlib.sha256(_canonical(_description(board)))
    for name, value in _stored_arrays(board).items():
        little_endian = value.astype(value.dtype.newbyteorder("<"), copy=False)
        digest.update(_canonical([name, _dtype_name(value), list(value.shape)]))
        digest.update(np.ascontiguousarray(little_endian).data)  # no copy: boards can be large
        _let_go(value)
    return digest.hexdigest()


def _let_go(array: AnyArray) -> None:
    """Give back the memory of a mapped file that an array lies in; what is touched again is read again.

    Only of what is mapped to be read: a map that may have been written to is left as it is.
    """
    place: Any = array
    while isinstance(place, np.ndarray) and not place.flags.writeable:
        place = place.base
    if isinstance(place, mmap.mmap) and hasattr(place, "madvise"):  # not on every system
        place.madvise(mmap.MADV_DONTNEED)


def _dtype_name(value: AnyArray) -> str:
    little_endian = value.dtype.newbyteorder("<")
    if little_endian not in _NAMES:
        raise InputError(f"a board holds float32, float64, int32, int64 or uint8 arrays, got {value.dtype}")
    return _NAMES[little_endian]


def _serialise(board: Board) -> bytes:
    described = _canonical({**_description(board), "certificate": board.certificate}).decode()
    header: dict[str, Any] = {"__metadata__": {"fedboard": described}}
    body: list[bytes] = []
    position = 0
    for name, value in _stored_arrays(board).items():
        content = value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
        header[name] = {
            "dtype": _dtype_name(value),
            "shape": list(value.shape),
            "data_offsets": [position, position + len(content)],
        }
        body.append(content)
        position += len(content)
    encoded = _canonical(header)
    encoded += b" " * (-(len(encoded) + 8) % _ALIGNMENT)
    return len(encoded).to_bytes(8, "little") + encoded + b"".join(body)


def _parse(mapped: AnyArray, max_header: int = _MAX_HEADER_BYTES) -> Board:
    header_bytes = int.from_bytes(mapped[:8].tobytes(), "little")
    if not 0 < header_bytes <= min(max_header, mapped.size - 8):
        raise ValueError("its header is cut short, or too long")
    header = json.loads(mapped[8 : 8 + header_bytes].tobytes().decode())
    metadata = header.pop("__metadata__")
    description = _checked(json.loads(metadata["fedboard"]))
    body = mapped[8 + header_bytes :]
    _require_apart(header, body.size)
    stored = {name: _array(entry, body) for name, entry in header.items()}
    titles = stored.get("catalogue/titles")
    item_ids = _strings(stored["catalogue/item_ids"])
    return Board(
        version=description["version"],
        task=description["task"],
        config=description["config"],
        arrays={name[len("array/") :]: value for name, value in stored.items() if name.startswith("array/")},
        catalogue=Catalogue(
            item_ids=item_ids,
            titles=None if titles is None else _strings(titles),
            features=features_from(stored, n_items=len(item_ids)),
        ),
        previous_digest=description["previous_digest"],
        certificate=description["certificate"],
    )


def _checked(description: Mapping[str, Any]) -> Mapping[str, Any]:
    """A description that came in a file: every part of it has its type, and a digest can be taken."""
    if description["format"] != _FORMAT:
        raise ValueError(f"its format is {description['format']}, this version reads {_FORMAT}")
    if type(description["version"]) is not int or not 0 <= description["version"] < 1 << 31:
        raise ValueError("its version is not a number of rounds")
    for name, kinds in _DESCRIBED.items():
        if not isinstance(description[name], kinds):
            raise ValueError(f"its {name} cannot be read")
    _canonical(description)
    return description


def _require_apart(header: Mapping[str, Any], n_bytes: int) -> None:
    """Each byte belongs to one array, so that a board weighs as much as its file."""
    places = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    if [0, *(stop for _, stop in places)] != [*(start for start, _ in places), n_bytes]:
        raise ValueError("its arrays overlap, are cut short, or leave bytes out")


def _array(entry: Mapping[str, Any], body: AnyArray) -> AnyArray:
    dtype, shape = _DTYPES[entry["dtype"]], tuple(entry["shape"])
    start, stop = entry["data_offsets"]
    if (
        min((start, *shape)) < 0
        or stop > body.size
        or stop - start != dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    ):
        raise ValueError("its arrays are cut short")
    content = body[start:stop]
    if start % dtype.itemsize:  # misaligned: happens only after a uint8 array of odd length
        content = content.copy()
    return content.view(dtype).reshape(shape)
