"""Checking everything that a source offers: what a careful reader, or whoever runs a mirror, does once."""

import hashlib
from collections.abc import Iterator
from io import BytesIO

import numpy as np

from fedboard.client.board_sources import Source
from fedboard.common.board import Board
from fedboard.common.board_service.packing import unpack
from fedboard.common.board_service.refusals import FeedCode, FeedRefusedError
from fedboard.common.certificate import Finding
from fedboard.common.errors import InputError
from fedboard.common.manifest import BoardFile, Encoding, Manifest, PinnedKey


def check_source(source: Source, key: PinnedKey, *, max_bytes: int) -> Iterator[Finding]:
    """Check the newest board and all before it: signatures, the chain, and every byte of every file.

    Args:
        source: trusted for nothing.
        key: who signs.
        max_bytes: largest file and largest board that are read.

    Yields:
        One finding for each manifest and each file.

    Raises:
        FeedRefusedError: there is no newest manifest that the key signed.
    """
    newest = key.open(source.manifest())
    later: Manifest | None = None
    for version in range(newest.version, -1, -1):
        try:
            manifest = key.open(source.manifest(version))
        except FeedRefusedError as error:
            if error.code is not FeedCode.NOT_FOUND or version == newest.version:
                yield Finding(check=f"version {version}", passed=False, detail=str(error))
            later = None
            continue
        yield _continued(manifest, version, newest, later)
        for file in manifest.files:
            yield _file_finding(source, manifest, file, max_bytes=max_bytes)
        later = manifest


def _continued(manifest: Manifest, version: int, newest: Manifest, later: Manifest | None) -> Finding:
    same = manifest.version == version and manifest.run == newest.run
    chained = later is None or later.previous_digest == manifest.board_digest
    detail = "signed; " + (
        "the next board continues it" if chained else "the next board does not continue it"
    )
    return Finding(
        check=f"version {version}",
        passed=same and chained,
        detail=detail if same else "signed, but as another version or run",
    )


def _file_finding(source: Source, manifest: Manifest, file: BoardFile, *, max_bytes: int) -> Finding:
    check = f"version {manifest.version}, {file.encoding.value}" + (
        " since an earlier board" if file.bases else ""
    )
    try:
        detail = _read_file(source, manifest, file, max_bytes=max_bytes)
    except (FeedRefusedError, InputError) as error:
        return Finding(check=check, passed=False, detail=str(error))
    return Finding(check=check, passed=True, detail=detail)


def _read_file(source: Source, manifest: Manifest, file: BoardFile, *, max_bytes: int) -> str:
    if max(file.size, file.board_size) > max_bytes:
        raise FeedRefusedError(FeedCode.TOO_LARGE)
    content = bytearray()
    for piece in source.read(manifest, file, 0):
        content += piece
        if len(content) > file.size:
            raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    if file.bases:
        return f"{file.size} bytes as signed; builds on versions {', '.join(map(str, file.bases))}"
    board_file = bytes(content)
    if file.encoding is not Encoding.EXACT:
        board_file = b"".join(unpack(BytesIO(board_file), board_size=file.board_size))
    board = Board.from_bytes(np.frombuffer(board_file, dtype=np.uint8))
    if board.digest != file.board_digest or hashlib.sha256(board_file).hexdigest() != file.board_sha256:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    return f"{file.size} bytes as signed, board {board.digest[:16]}"


__all__ = ["check_source"]
