"""Fetching boards from servers that fail or lie, over real sockets: nothing wrong gets in, nothing is lost."""

import http.server
import io
import shutil
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedboard.client.boards import sources
from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.grpc_source import GrpcSource
from fedboard.client.boards.mirror_check import check_source, protection_of_source
from fedboard.client.boards.sources import FolderSource, HttpSource, Patience, open_source
from fedboard.common.board import Board
from fedboard.common.boards.methods import CHUNK_BYTES
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protection import Protection, protection_of_board
from fedboard.server import tls
from fedboard.server.publishing import service
from fedboard.server.publishing.limits import Limits
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.tls import make_authority, make_server_certificate
from tests.common.boards.boards import (
    RUN,
    chain,
    keys,
    of_version,
    path_of,
    signed_file,
    signed_mirror,
    write_boards,
    write_manifest,
)
from tests.server.publishing.running import RunningBoards, serve_boards
from tests.server.vouched import vouched_pair

AT_ONCE = Patience(attempts=3, first_seconds=0.0, poll_seconds=0.0)


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.read(keys(tmp_path / "keys")[0])


@pytest.fixture
def mirror(tmp_path: Path, key: SigningKey) -> Mirror:
    """Versions 2, 3 and 4."""
    return signed_mirror(tmp_path, chain(3), key=key)


@pytest.fixture
def cache(tmp_path: Path) -> BoardCache:
    return BoardCache(tmp_path / "cache")


@contextmanager
def serving(mirror: Mirror, **settings: object) -> Iterator[RunningBoards]:
    with serve_boards(mirror.folder, **({"poll_seconds": 0.05} | settings)) as service:
        yield service


def feed_of(source, key, cache, **options) -> BoardFeed:
    return BoardFeed(source, key.public, cache, **({"patience": AT_ONCE} | options))


def in_folder(mirror, key, cache, **options) -> BoardFeed:
    return feed_of(FolderSource(mirror.folder), key, cache, **options)


def code_of(action) -> FeedCode:
    with pytest.raises(FeedRefusedError) as refused:
        action()
    return refused.value.code


def contents(cache) -> dict[str, bytes]:
    return {board.path.name: board.path.read_bytes() for board in cache.boards()}


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


class ForbiddingHandler(QuietHandler):
    """Object stores that list nothing say of what is not there that it is forbidden."""

    def do_GET(self):
        if "/roots/" in self.path:
            self.send_error(403)
        else:
            super().do_GET()


class CuttingHandler(QuietHandler):
    """Serves ranges, and breaks off after some bytes of a file."""

    cuts = (50_000, 1, 70_000)
    asked: list[str | None]

    def do_GET(self) -> None:
        if "/files/" not in self.path:
            super().do_GET()
            return
        asked = self.headers.get("Range")
        offset = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        content = Path(self.translate_path(self.path)).read_bytes()[offset:]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        number = len(self.asked)
        self.asked.append(asked)
        self.wfile.write(content[: self.cuts[number]] if number < len(self.cuts) else content)


@contextmanager
def web_server(folder: Path, handler: type[QuietHandler], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    server.handle_error = lambda *_: None
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class DrippingHandler(QuietHandler):
    """Sends what begins with its word byte by byte, for twenty seconds or until nobody listens any more."""

    drips: bytes
    left: threading.Event
    outlived = True

    def do_GET(self):
        with io.BytesIO() as content:
            plain, self.wfile = self.wfile, content
            super().do_GET()
            self.wfile, whole = plain, content.getvalue()
        start = whole.index(self.drips)
        with suppress(OSError):
            self.wfile.write(whole[:start])
            for byte in (whole[start:] * 400)[:400]:
                self.wfile.write(bytes([byte]))
                if self.left.wait(0.05):
                    return
            type(self).outlived = False


class CuttingProxy:
    """A TCP proxy in front of a service: the first connections die after so many bytes from the server."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        self._port, self._cuts = port, list(cuts)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "CuttingProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in self._open:
            _end(one)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                reader, _ = self._socket.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port))
            limit = self._cuts.pop(0) if self._cuts else 1 << 60
            self.connections += 1
            self._open += [reader, server]
            for pair in ((reader, server, 1 << 60), (server, reader, limit)):
                thread = threading.Thread(target=_pump, args=pair, daemon=True)
                self._threads.append(thread)
                thread.start()


def _pump(origin: socket.socket, target: socket.socket, limit: int) -> None:
    with suppress(OSError):
        while limit > 0 and (piece := origin.recv(min(limit, 16384))):
            target.sendall(piece)
            limit -= len(piece)
    _end(origin)
    _end(target)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class RecordingSource(GrpcSource):
    """Remembers from where on it was asked to read."""

    def read(self, manifest, offset):
        self.__dict__.setdefault("offsets", []).append(offset)
        return super().read(manifest, offset)


@pytest.mark.slow
def test_a_board_comes_by_grpc_by_http_and_from_a_folder_alike(tmp_path, mirror, key):
    found = []
    with serving(mirror) as service, web_server(mirror.folder, QuietHandler) as address, ExitStack() as stack:
        places = (f"grpc://127.0.0.1:{service.port}", address, str(mirror.folder))
        for number, place in enumerate(places):
            source = stack.enter_context(closing(open_source(place)))
            fetched = feed_of(source, key, BoardCache(tmp_path / f"cache-{number}")).fetch()
            found.append((fetched.received, fetched.path.read_bytes()))

    assert found[0] == found[1] == found[2]
    assert found[0][1] == chain(3)[2].to_bytes()


def test_a_stream_that_is_cut_is_resumed_where_it_broke_off(tmp_path, key, cache):
    content = np.random.default_rng(0).bytes(3_000_000)
    mirror = signed_file(tmp_path, content, key=key)
    with (
        serving(mirror) as service,
        CuttingProxy(service.port, [1_400_000, 1_400_000]) as proxy,
        closing(RecordingSource(f"127.0.0.1:{proxy.port}", tls=False, seconds=10)) as source,
    ):
        feed = feed_of(source, key, cache, patience=Patience(attempts=8, first_seconds=0.2))
        assert code_of(feed.fetch) is FeedCode.MALFORMED  # every byte came; it is only no board

    assert proxy.connections == 3
    # How many chunks had come whole at a cut is chance; what had come is never asked for again.
    assert source.offsets == sorted(source.offsets)
    assert source.offsets[0] == 0
    assert set(source.offsets) <= {0, CHUNK_BYTES, 2 * CHUNK_BYTES}


@pytest.mark.slow
def test_a_web_server_that_breaks_off_is_asked_for_the_rest(tmp_path, mirror, key, cache):
    mirror = signed_mirror(tmp_path / "large", chain(1, n_items=3000, rank=16), key=key)
    handler = type("Handler", (CuttingHandler,), {"asked": []})
    with web_server(mirror.folder, handler) as address:
        fetched = feed_of(
            HttpSource(address), key, cache, patience=Patience(attempts=9, first_seconds=0)
        ).fetch()

    assert fetched.path.read_bytes() == chain(1, n_items=3000, rank=16)[0].to_bytes()
    assert handler.asked == [None, "bytes=50000-", "bytes=50001-", "bytes=120001-"]


@pytest.mark.slow
@pytest.mark.parametrize("drips", [b"Server:", b'"content"'], ids=["its headers", "what it says"])
def test_a_server_that_drips_is_left_once_its_time_is_over(mirror, drips):
    handler = type("Dripping", (DrippingHandler,), {"drips": drips, "left": threading.Event()})
    with web_server(mirror.folder, handler) as address:
        assert code_of(HttpSource(address, seconds=0.5).manifest) is FeedCode.UNREACHABLE
        handler.left.set()
    assert handler.outlived, "the reader waited for the last byte"


def test_a_board_that_comes_byte_by_byte_is_given_up_after_the_time_for_all_of_it(mirror, key, cache):
    class Dripping(FolderSource):
        def read(self, manifest, offset):
            yield next(iter(super().read(manifest, offset)))[:1]
            raise FeedRefusedError(FeedCode.UNREACHABLE)

    patience = replace(AT_ONCE, piece_seconds=0.0)
    feed = feed_of(Dripping(mirror.folder), key, cache, patience=patience)

    assert code_of(feed.fetch) is FeedCode.UNREACHABLE
    assert [part.stat().st_size for part in cache.folder.glob("*.part")] == [1]


def test_a_download_goes_on_after_the_process_ended(mirror, key, cache):
    file = key.public.open(of_version(mirror, 4).signed).file
    begun = mirror.file(file.sha256).read_bytes()[:1000]
    (cache.folder / f"{file.sha256}.part").write_bytes(begun)
    (cache.folder / f"{'0' * 64}.part").write_bytes(b"of a board that is no longer wanted")

    fetched = in_folder(mirror, key, cache).fetch()

    assert fetched.received == file.size - 1000
    assert not list(cache.folder.glob("*.part"))


def test_a_begun_download_that_was_damaged_is_dropped_and_comes_anew(mirror, key, cache):
    file = key.public.open(of_version(mirror, 4).signed).file
    (cache.folder / f"{file.sha256}.part").write_bytes(b"x" * 1000)
    feed = in_folder(mirror, key, cache)

    assert code_of(feed.fetch) is FeedCode.WRONG_DIGEST

    assert feed.fetch().received == file.size


def test_one_flipped_byte_in_the_file_is_refused_and_the_old_board_stays(mirror, key, cache):
    feed = in_folder(mirror, key, cache)
    feed.fetch(3)
    before = contents(cache)
    place = mirror.file(key.public.open(of_version(mirror, 4).signed).file.sha256)
    damaged = bytearray(place.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    place.write_bytes(damaged)

    assert code_of(feed.fetch) is FeedCode.WRONG_DIGEST

    assert contents(cache) == before
    assert cache.newest().version == 3


def roll_back(mirror, version=3):
    shutil.copy(path_of(mirror, version), mirror.folder / "latest.json")


def test_a_file_that_does_not_end_is_read_no_further_than_it_was_signed(mirror, key, cache):
    class Endless(FolderSource):
        given = 0

        def read(self, manifest, offset):
            while self.given < 100:
                self.given += 1
                yield bytes(manifest.file.size)

    source = Endless(mirror.folder)
    reader = BoardFeed(source, key.public, cache, max_bytes=1 << 30, patience=Patience(attempts=1))

    assert code_of(reader.fetch) is FeedCode.WRONG_DIGEST
    assert source.given == 2
    assert contents(cache) == {}


def test_the_newest_version_is_remembered_even_where_its_file_never_came(mirror, key, cache):
    mirror.file(key.public.open(of_version(mirror, 4).signed).file.sha256).unlink()
    feed = in_folder(mirror, key, cache)
    assert code_of(feed.fetch) is FeedCode.NOT_FOUND
    roll_back(mirror)

    assert code_of(feed.fetch) is FeedCode.ROLLBACK


def test_an_older_version_that_is_asked_for_by_name_is_given(mirror, key, cache):
    feed = in_folder(mirror, key, cache)
    feed.fetch()

    assert feed.fetch(2).manifest.version == 2
    assert feed.seen().version == 4
    assert cache.newest().version == 4


def test_a_manifest_under_another_ones_name_is_refused(mirror, key, cache):
    shutil.copy(path_of(mirror, 4), path_of(mirror, 3))

    assert code_of(lambda: in_folder(mirror, key, cache).fetch(2)) is FeedCode.WRONG_DIGEST


def test_a_version_that_the_chain_does_not_have_is_not_found(mirror, key, cache):
    for version in (1, 5):
        assert (
            code_of(lambda version=version: in_folder(mirror, key, cache).fetch(version))
            is FeedCode.NOT_FOUND
        )


def test_another_run_of_the_same_key_is_refused(mirror, key, cache):
    assert code_of(in_folder(mirror, key, cache, run="winter").fetch) is FeedCode.WRONG_RUN


@pytest.mark.slow
@pytest.mark.parametrize("field", ["size", "board_size"])
def test_a_board_that_is_announced_too_large_is_not_even_asked_for(mirror, key, cache, field):
    manifest = key.public.open(of_version(mirror, 4).signed)
    file = msgspec.structs.replace(manifest.file, **{field: 1 << 40})
    write_manifest(mirror, msgspec.structs.replace(manifest, file=file), key=key)

    assert code_of(in_folder(mirror, key, cache).fetch) is FeedCode.TOO_LARGE

    assert not list(cache.folder.glob("*.part"))


def test_follow_gets_each_board_as_it_is_published(tmp_path, key, cache):
    boards = chain(3)
    mirror = signed_mirror(tmp_path, boards[:1], key=key)
    with serving(mirror) as service, closing(GrpcSource(f"127.0.0.1:{service.port}", tls=False)) as source:
        news = feed_of(source, key, cache).follow()
        found = [next(news).manifest.version]
        for board in boards[1:]:
            publish_into(mirror, write_boards(tmp_path / "boards", [board]), key=key, run=RUN)
            found.append(next(news).manifest.version)
        news.close()

    assert found == [2, 3, 4]


def test_follow_looks_again_where_nobody_tells(tmp_path, key, cache):
    boards = chain(2)
    mirror = signed_mirror(tmp_path, boards[:1], key=key)
    news = in_folder(mirror, key, cache).follow()
    assert next(news).manifest.version == 2
    publish_into(mirror, write_boards(tmp_path / "boards", boards[1:]), key=key, run=RUN)

    assert next(news).manifest.version == 3


@pytest.mark.slow
def test_a_reader_who_is_sent_away_comes_back_later(mirror, key, cache):
    waits: list[float] = []
    patience = Patience(
        attempts=20, first_seconds=0.1, sleep=lambda s: (waits.append(s), threading.Event().wait(s))[0]
    )
    limits = Limits(requests_per_second_per_address=1.0)
    with (
        serving(mirror, limits=limits) as service,
        closing(GrpcSource(f"127.0.0.1:{service.port}", tls=False)) as source,
    ):
        for _ in range(4):  # of the service's two at once
            feed_of(source, key, cache, patience=patience).fetch()

    assert service.counters.rate_limited == len(waits) > 0


def test_a_service_that_is_not_there_is_given_up_after_waits_that_grow(key, cache):
    waits: list[float] = []
    with closing(GrpcSource("127.0.0.1:1", tls=False, seconds=2)) as source:
        feed = feed_of(
            source, key, cache, patience=Patience(attempts=4, first_seconds=0.01, sleep=waits.append)
        )
        assert code_of(feed.fetch) is FeedCode.UNREACHABLE

    assert len(waits) == 3
    assert all(0 <= wait <= 0.01 * 2**number for number, wait in enumerate(waits))


def test_two_processes_do_not_fetch_into_one_cache_at_once(mirror, key, cache):
    feed = in_folder(mirror, key, cache)

    with feed.alone(), pytest.raises(InputError, match="another process"):
        in_folder(mirror, key, cache).fetch()

    assert in_folder(mirror, key, cache).fetch()


@pytest.fixture
def certificates(tmp_path):
    """The server's pair, the authority behind it, and another one."""
    make_authority(tmp_path / "theirs.pem", tmp_path / "theirs.key", name="theirs")
    return vouched_pair(tmp_path, authority="ours", names=["127.0.0.1"])


@contextmanager
def over_tls(kind, mirror, certificates) -> Iterator[str]:
    pair = (certificates / "server.pem", certificates / "server.key")
    if kind == "grpcs":
        with serving(mirror, certificate=pair[0], private_key=pair[1]) as service:
            yield f"grpcs://127.0.0.1:{service.port}"
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    with web_server(mirror.folder, QuietHandler, context) as address:
        yield address.replace("http:", "https:")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grpcs", "https"])
def test_a_certificate_that_nobody_vouches_for_is_told_at_once(mirror, key, cache, certificates, kind):
    waits: list[float] = []
    patience = Patience(sleep=waits.append)
    with over_tls(kind, mirror, certificates) as place:
        for authority in (certificates / "theirs.pem", None):
            with closing(open_source(place, authority=authority, seconds=5)) as source:
                assert code_of(feed_of(source, key, cache, patience=patience).fetch) is FeedCode.UNTRUSTED
        with closing(open_source(place, authority=certificates / "ours.pem")) as source:
            assert feed_of(source, key, cache).fetch().manifest.version == 4

    assert waits == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["grpcs", "https"])
@pytest.mark.parametrize(("days", "since"), [(-1, 5), (400, -3)], ids=["expired", "not yet valid"])
def test_a_certificate_that_is_out_of_date_is_said_to_be_so(
    tmp_path, mirror, key, cache, certificates, kind, days, since, monkeypatch
):
    """Of a service that was started while it was valid."""
    folder = tmp_path / "out of date"
    monkeypatch.setattr(tls, "_SERVER_DAYS", days)
    monkeypatch.setattr(tls, "_CLOCKS_APART", timedelta(days=since))
    make_server_certificate(
        folder / "server.pem",
        folder / "server.key",
        authority=certificates / "ours.pem",
        authority_key=certificates / "ours.key",
        names=(),
    )
    monkeypatch.setattr(service, "require_pair", lambda certificate, key: None)
    with (
        over_tls(kind, mirror, folder) as place,
        closing(open_source(place, authority=certificates / "ours.pem", seconds=5)) as source,
    ):
        assert code_of(feed_of(source, key, cache).fetch) is FeedCode.EXPIRED
        with pytest.raises(FeedRefusedError, match="expired"):
            list(check_source(source, key.public, max_bytes=1 << 30))


@pytest.mark.parametrize("place", ["grpcs://127.0.0.1:1", "https://127.0.0.1:1"])
@pytest.mark.parametrize(
    ("content", "told"), [(b"no PEM", "is none"), (b"\xff", "is none"), (None, "No such file")]
)
def test_a_file_without_a_certificate_is_named(tmp_path, place, content, told):
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)

    with pytest.raises(
        InputError, match=rf"ca\.pem: --authority, authority of \[server\] and ca_certificate .*{told}"
    ):
        open_source(place, authority=tmp_path / "ca.pem")


@pytest.mark.parametrize("place", ["ftp://somewhere", "not-a-folder"])
def test_a_source_that_is_none_is_told(place):
    with pytest.raises(InputError, match="grpcs://"):
        open_source(place)


def test_a_redirect_from_https_to_http_is_not_followed():
    from urllib.request import Request

    from fedboard.client.boards.sources import _NoRedirectDown

    request = Request("https://boards.example/latest.json")
    with pytest.raises(FeedRefusedError):
        _NoRedirectDown().redirect_request(request, None, 302, "", {}, "http://boards.example/latest.json")


def test_a_whole_mirror_is_checked_and_each_fault_is_found(mirror, key):
    source = FolderSource(mirror.folder)
    findings = list(check_source(source, key.public, max_bytes=1 << 30))
    assert len(findings) == 3 + 3
    assert all(finding.passed for finding in findings)

    damaged = mirror.file(key.public.open(of_version(mirror, 3).signed).file.sha256)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    shutil.copy(path_of(mirror, 3), path_of(mirror, 2))

    failed = [
        finding.check for finding in check_source(source, key.public, max_bytes=1 << 30) if not finding.passed
    ]
    assert "version 3, its board" in failed
    assert "chain of manifests" in failed


class LeavingSource(FolderSource):
    """Goes away after some answers."""

    left = 2

    def read(self, manifest, offset):
        self.left -= 1
        if self.left < 0:
            raise FeedRefusedError(FeedCode.UNREACHABLE)
        return super().read(manifest, offset)


def test_what_could_not_be_checked_has_not_failed_and_is_not_waited_for_again_and_again(mirror, key):
    waits: list[float] = []
    patience = Patience(attempts=4, sleep=waits.append)
    source = LeavingSource(mirror.folder)

    findings = list(check_source(source, key.public, max_bytes=1 << 30, patience=patience))

    counted = Counter(finding.passed for finding in findings)
    assert counted == {True: 3 + 2, None: 1}
    assert len(waits) == 3


def test_a_file_that_is_larger_than_is_read_was_not_checked(mirror, key):
    findings = list(check_source(FolderSource(mirror.folder), key.public, max_bytes=1))

    assert Counter(finding.passed for finding in findings) == {True: 3, None: 3}


def test_boards_that_are_too_large_together_are_checked_one_by_one(mirror, key):
    largest = max(link.manifest.file.board_size for link in mirror.chain())

    assert all(
        one.passed for one in check_source(FolderSource(mirror.folder), key.public, max_bytes=largest + 9)
    )


SEEDED, SECRET = SeededNoise(0), SecureNoise()


@pytest.fixture
def simulated(tmp_path, key) -> Mirror:
    """Versions 2, 3 and 4 of a run whose noise is seeded, marked as that."""
    return signed_mirror(tmp_path / "simulated", chain(3, noise=(SEEDED,)), key=key, simulation=True)


@pytest.mark.slow
@pytest.mark.parametrize("simulation", [False, True])
@pytest.mark.parametrize("stated", [Protection.PRIVATE, Protection.NO_DATA])
def test_an_unmarked_simulation_is_refused_whatever_its_signed_manifest_says(
    simulated, key, cache, simulation, stated
):
    """The holder of the key signs "private"; the releases on the board itself name their seed."""
    manifest = of_version(simulated, 4).manifest
    write_manifest(simulated, msgspec.structs.replace(manifest, protection=stated), key=key)

    feed = in_folder(simulated, key, cache, simulation=simulation)

    assert code_of(feed.fetch) is FeedCode.NOT_AS_STATED
    assert not cache.boards()
    assert not list(cache.folder.glob("*.part"))


def test_a_board_that_was_kept_without_its_certificate_is_fetched_again(mirror, key, cache):
    """The digest is the same, and nothing says what the noise is."""
    feed = in_folder(mirror, key, cache)
    path = feed.fetch().path
    whole = path.read_bytes()
    replace(Board.load(path), certificate=None).save(path)
    assert protection_of_board(cache.newest()) is Protection.UNSTATED

    assert feed.fetch().received > 0
    assert path.read_bytes() == whole


def test_checking_a_source_finds_boards_that_are_not_what_was_signed(simulated, key):
    manifest = of_version(simulated, 4).manifest
    honest = list(check_source(FolderSource(simulated.folder), key.public, max_bytes=1 << 30))
    write_manifest(simulated, msgspec.structs.replace(manifest, protection=Protection.PRIVATE), key=key)

    found = list(check_source(FolderSource(simulated.folder), key.public, max_bytes=1 << 30))

    assert all(finding.passed for finding in honest)
    assert protection_of_source(honest) is protection_of_source(found) is Protection.SIMULATION
    failed = [finding.detail.partition(":")[0] for finding in found if finding.passed is False]
    assert set(failed) == {"not-as-stated"}


def test_a_store_that_forbids_what_it_does_not_have_has_no_next_root(mirror, key, cache):
    with web_server(mirror.folder, ForbiddingHandler) as address:
        fetched = BoardFeed(HttpSource(address), key.public, cache, patience=Patience(attempts=1)).fetch()

    assert fetched.manifest.version == 4


def test_silence_is_not_waited_for_as_long_as_a_whole_file_may_take():
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(0.25)
        far.sendall(b"a byte")
        stream = sources._Timely(near.makefile("rb", buffering=0), near, 1e6)

        assert stream.read(6) == b"a byte"
        assert near.gettimeout() == 0.25
        with pytest.raises(TimeoutError):
            stream.read(1)
