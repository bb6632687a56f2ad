"""Keys, a mirror, and a service over it on a real socket."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fedboard.server.publishing.mirror import Mirror
from fedboard.server.publishing.signing import SigningKey
from tests.common.boards.boards import chain, keys, signed_mirror
from tests.server.publishing.running import RunningBoards, serve_boards


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.read(keys(tmp_path / "keys")[0])


@pytest.fixture
def mirror(tmp_path: Path, key: SigningKey) -> Mirror:
    """Versions 2, 3 and 4."""
    return signed_mirror(tmp_path, chain(3), key=key)


@pytest.fixture
def serve() -> Iterator[Callable[..., RunningBoards]]:
    """``(mirror folder, **settings)`` to a service that is closed afterwards."""
    with ExitStack() as stack:

        def start(folder: Path, **settings: object) -> RunningBoards:
            return stack.enter_context(serve_boards(folder, **({"poll_seconds": 0.05} | settings)))

        yield start
