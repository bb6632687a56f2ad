"""Reading deflate streams from a file that somebody else wrote, within bounds."""

import zlib
from typing import IO

_PIECE = 1 << 16


class Inflated:
    """The next bytes of a file, inflated piece by piece; it never makes more bytes than are asked for."""

    def __init__(self, packed: IO[bytes], length: int) -> None:
        """Begin.

        Args:
            packed: where the stream begins.
            length: its bytes, packed.
        """
        self._stream, self._packed, self._left = zlib.decompressobj(), packed, length

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes.

        Raises:
            ValueError: it ends before.
        """
        pieces = []
        while size > 0:
            packed = self._stream.unconsumed_tail or self._next()
            pieces.append(self._stream.decompress(packed, size))
            size -= len(pieces[-1])
            if size > 0 and (self._stream.eof or not (packed or pieces[-1])):
                raise ValueError("an array is cut short")
        return b"".join(pieces)

    def end(self) -> None:
        """Make sure that it ends here.

        Raises:
            ValueError: it holds more, or its checksum is missing or wrong.
        """
        more = b""
        while not self._stream.eof and not more and (packed := self._stream.unconsumed_tail or self._next()):
            more = self._stream.decompress(packed, 1)
        if more or not self._stream.eof or self._stream.unused_data or self._left > 0:
            raise ValueError("an array of another size")

    def _next(self) -> bytes:
        packed = self._packed.read(min(_PIECE, self._left)) if self._left > 0 else b""
        self._left -= len(packed)
        return packed
