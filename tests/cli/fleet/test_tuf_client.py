"""What python-tuf's own client makes of a repository of ours: it takes the right files and refuses the others."""

import functools
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tuf.api import exceptions
from tuf.ngclient import FetcherInterface, Updater

from fedboard.server.board_service.mirror import publish_into
from fedboard.server.board_service.signing import SigningKey
from tests.cli.fleet.key_drill import Drill
from tests.common.board_service.boards import chain

NEWEST = "summer/newest.board"


class Folder(FetcherInterface):
    """Reads files where a web server would."""

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = Path(url.removeprefix("file://"))
        if not path.is_file():
            raise exceptions.DownloadHTTPError("not found", 404)
        yield path.read_bytes()


def updated(mirror: Path | str, to: Path, pinned: Path, name: str = NEWEST) -> bytes:
    """One update and one download, with what the client kept from the last one."""
    to.mkdir(exist_ok=True)
    base, fetcher = (mirror, None) if isinstance(mirror, str) else (f"file://{mirror}", Folder())
    client = Updater(
        str(to / "metadata"),
        f"{base}/metadata/",
        target_dir=str(to),
        target_base_url=f"{base}/targets/",
        fetcher=fetcher,
        bootstrap=pinned.read_bytes(),
    )
    client.refresh()
    target = client.get_targetinfo(name)
    if target is None:
        raise LookupError(name)
    return Path(client.download_target(target)).read_bytes()


def copied(mirror: Path, to: Path) -> Path:
    shutil.copytree(mirror, to)
    return to


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_the_newest_board_comes_from_a_web_server_byte_for_byte(drill: Drill, tmp_path: Path) -> None:
    handler = functools.partial(Silent, directory=drill.mirror("third"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        boards = chain(4)

        assert updated(place, tmp_path / "one", drill.pinned) == boards[3].to_bytes()
        earlier = updated(place, tmp_path / "one", drill.pinned, "summer/board-0003.board")
        assert earlier == boards[1].to_bytes()
        with pytest.raises(LookupError):
            updated(place, tmp_path / "one", drill.pinned, "summer/board-0009.board")
        server.shutdown()


def test_a_client_that_slept_follows_the_roots_and_goes_back_for_nobody(drill: Drill, tmp_path: Path) -> None:
    boards = chain(4)
    sizes = [
        len(updated(drill.mirror(stage), tmp_path / "client", drill.pinned)) for stage in ("first", "third")
    ]

    assert sizes == [len(boards[1].to_bytes()), len(boards[3].to_bytes())]
    with pytest.raises(exceptions.RepositoryError):
        updated(drill.mirror("second"), tmp_path / "client", drill.pinned)


def test_the_stolen_key_is_refused(drill: Drill, theft: Path, tmp_path: Path) -> None:
    updated(drill.mirror("second"), tmp_path / "client", drill.pinned)

    for mirror, client in ((theft, "client"), (drill.mirror("theft"), "client"), (theft, "new")):
        with pytest.raises(exceptions.UnsignedMetadataError):
            updated(mirror, tmp_path / client, drill.pinned)


def test_a_key_that_still_signs_cannot_go_back(drill: Drill, tmp_path: Path) -> None:
    """Without a rotation between them: the metadata of a week ago, whose signatures are good."""
    now = copied(drill.mirror("third"), tmp_path / "mirror")
    later = functools.partial(
        publish_into,
        run="summer",
        key=SigningKey.read(drill.key("third")),
        clock=lambda: time.time() + 20 * 86_400,
    )
    from fedboard.server.board_service.mirror import Mirror

    later(Mirror(copied(now, tmp_path / "renewed")), drill.folder / "summer" / "boards")
    updated(tmp_path / "renewed", tmp_path / "client", drill.pinned)

    with pytest.raises(exceptions.BadVersionNumberError):
        updated(now, tmp_path / "client", drill.pinned)


def expired(drill: Drill, folder: Path) -> Path:
    """Everything signed two months ago, for one month."""
    from fedboard.server.board_service.mirror import Mirror

    mirror = Mirror(folder)
    publish_into(
        mirror,
        drill.folder / "summer" / "boards",
        key=SigningKey.read(drill.key("third")),
        run="summer",
        roots=drill.folder / "roots",
        tuf=True,
        clock=lambda: time.time() - 60 * 86_400,
    )
    return folder


def test_what_has_expired_is_refused_and_what_was_renewed_is_taken(drill: Drill, tmp_path: Path) -> None:
    from tests.cli.fleet.key_drill import done

    mirror = expired(drill, tmp_path / "mirror")
    with pytest.raises(exceptions.ExpiredMetadataError):
        updated(mirror, tmp_path / "client", drill.pinned)

    done("keys", "renew", mirror, "--key", drill.key("third"))

    assert updated(mirror, tmp_path / "client", drill.pinned) == chain(4)[3].to_bytes()


def _board(mirror: Path) -> None:
    for path in (mirror / "targets").rglob("*.newest.board"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.unlink()  # it may be a link to the mirror's own file
        path.write_bytes(content)


def _listed(name: str) -> Callable[[Path], None]:
    def change(mirror: Path) -> None:
        path = max((mirror / "metadata").glob(f"*{name}.json"), key=lambda path: path.stat().st_mtime_ns)
        plain = json.loads(path.read_text())
        plain["signed"]["version"] += 1
        path.write_text(json.dumps(plain))

    return change


def _root(mirror: Path) -> None:
    path = mirror / "metadata" / "3.root.json"
    plain = json.loads(path.read_text())
    plain["signatures"] = plain["signatures"][:1]
    path.write_text(json.dumps(plain))


def _gap(mirror: Path) -> None:
    (mirror / "metadata" / "2.root.json").unlink()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_board, exceptions.RepositoryError),
        (_listed("targets"), exceptions.RepositoryError),
        (_listed("snapshot"), exceptions.RepositoryError),
        (_listed("timestamp"), exceptions.UnsignedMetadataError),
        (_root, exceptions.UnsignedMetadataError),
        (_gap, exceptions.UnsignedMetadataError),
    ],
    ids=["board", "targets", "snapshot", "timestamp", "one signature of a root less", "a root is missing"],
)
def test_whatever_somebody_changed_is_refused(
    drill: Drill, tmp_path: Path, change: Callable[[Path], None], error: type[Exception]
) -> None:
    mirror = copied(drill.mirror("third"), tmp_path / "mirror")
    change(mirror)

    with pytest.raises(error):
        updated(mirror, tmp_path / "client", drill.pinned)


def test_the_repository_and_the_mirror_have_the_same_roots_and_boards(drill: Drill) -> None:
    mirror = drill.mirror("third")
    roots = [
        {p.name: p.read_bytes() for p in (mirror / at).glob("*.root.json")} for at in ("roots", "metadata")
    ]

    assert roots[0] == roots[1]
    assert len(roots[0]) == 3
    for path in (mirror / "targets" / "summer").iterdir():
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.name.startswith(f"{sha256}.")
        assert (mirror / "files" / sha256).exists()


def test_nothing_is_written_anew_while_nothing_changed(drill: Drill, tmp_path: Path) -> None:
    mirror = copied(drill.mirror("third"), tmp_path / "mirror")
    before = {path.name: path.read_bytes() for path in (mirror / "metadata").iterdir()}
    from tests.cli.fleet.key_drill import done

    done("board", "export", drill.folder / "summer", "--to", mirror, "--key", drill.key("third"))

    assert {path.name: path.read_bytes() for path in (mirror / "metadata").iterdir()} == before
