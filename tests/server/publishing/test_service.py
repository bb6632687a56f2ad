"""The board service over real sockets: what it hands out, what it refuses, and what it counts."""

import threading
import time
import urllib.request
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import grpc
import msgspec
import numpy as np
import pytest

from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.boards_pb2 import Chunk, FetchRequest, WatchRequest
from fedboard.common.boards.layout import LATEST, file_name, manifest_name, root_name
from fedboard.common.boards.methods import CHUNK_BYTES, FETCH, WATCH, method
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.server.publishing.limits import Limits
from fedboard.server.publishing.mirror import Mirror
from fedboard.server.publishing.shelf import Shelf
from tests.commands import until
from tests.common.boards.boards import (
    RUN,
    SECRET,
    chain,
    keys,
    of_version,
    signed_by_hand,
    signed_file,
    signed_mirror,
    write_boards,
)
from tests.server.publishing.running import Signing


class Client:
    """A client of another make: nothing but the .proto file."""

    def __init__(self, service, *, channel=None):
        self.channel = channel or grpc.insecure_channel(
            f"127.0.0.1:{service.port}", options=[("grpc.max_receive_message_length", 1 << 24)]
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def latest(self):
        return SignedManifest.from_bytes(b"".join(self.chunks(LATEST)))

    def chunks(self, name, offset=0):
        call = self.channel.unary_stream(method(FETCH), FetchRequest.SerializeToString, Chunk.FromString)
        return [chunk.content for chunk in call(FetchRequest(name=name, offset=offset), timeout=10)]

    def watch(self, **request):
        call = self.channel.unary_stream(method(WATCH), WatchRequest.SerializeToString, Chunk.FromString)
        return call(WatchRequest(**request), timeout=20)


def board_name(mirror, version):
    return file_name(of_version(mirror, version).manifest.file.sha256)


def status_of(action):
    with pytest.raises(grpc.RpcError) as failed:
        action()
    return failed.value.code(), failed.value.details()


def test_a_published_folder_is_static_files_and_the_service_hands_out_the_same(mirror, serve):
    """Every file that a reader asks for, over gRPC and from a web server."""
    (mirror.folder / "roots").mkdir(exist_ok=True)
    (mirror.folder / root_name(1)).write_bytes(b"whatever was published there")
    links = mirror.chain()
    names = [LATEST, root_name(1), *(manifest_name(link.digest) for link in links)]
    names += [file_name(link.manifest.file.sha256) for link in links]
    assert len(names) == 8
    handler = partial(SimpleHTTPRequestHandler, directory=mirror.folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web, Client(serve(mirror.folder)) as client:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        for name in names:
            with urllib.request.urlopen(f"http://127.0.0.1:{web.server_port}/{name}", timeout=10) as answer:
                whole = answer.read()
            assert b"".join(client.chunks(name)) == whole
            assert b"".join(client.chunks(name, offset=3)) == whole[3:]
        web.shutdown()


def test_a_large_board_comes_in_chunks_and_from_any_offset(tmp_path, key, serve):
    whole = np.random.default_rng(0).bytes(2_700_000)
    mirror = signed_file(tmp_path, whole, key=key)
    name = board_name(mirror, 2)
    with Client(serve(mirror.folder)) as client:
        full = len(whole) // CHUNK_BYTES
        assert [len(chunk) for chunk in client.chunks(name)[:-1]] == [CHUNK_BYTES] * full
        for offset in (0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, len(whole) - 1, len(whole)):
            assert b"".join(client.chunks(name, offset=offset)) == whole[offset:]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [manifest_name("0" * 64), root_name(77), "files/../../keys/board-signing.key", "mirror.lock", ""],
)
def test_what_is_not_a_published_file_is_not_found(mirror, serve, name):
    with Client(serve(mirror.folder)) as client:
        assert status_of(lambda: client.chunks(name)) == (grpc.StatusCode.NOT_FOUND, "not-found")


def test_an_offset_beyond_the_end_is_malformed(mirror, serve):
    with Client(serve(mirror.folder)) as client:
        for name in (LATEST, board_name(mirror, 4)):
            refused = status_of(partial(client.chunks, name, offset=1 << 60))
            assert refused == (grpc.StatusCode.INVALID_ARGUMENT, "malformed")


def test_a_mirror_without_boards_has_no_latest(tmp_path, serve):
    with Client(serve(tmp_path)) as client:
        assert status_of(client.latest)[0] is grpc.StatusCode.NOT_FOUND


def test_an_oversized_request_reaches_no_method_and_a_malformed_one_is_counted_as_such(mirror, serve):
    service = serve(mirror.folder)
    with Client(service) as client:
        raw = client.channel.unary_stream(method(FETCH))
        for request in (b"\x12\xff\xff\xff" + b"x" * 100_000, b"\xff" * 20):
            with pytest.raises(grpc.RpcError):
                list(raw(request, timeout=10))
        assert client.latest()
    assert service.counters.requests == {(FETCH, "malformed"): 1, (FETCH, "ok"): 1}


def test_watch_tells_the_newest_board_then_each_one_as_it_is_published(tmp_path, serve):
    boards = chain(4)
    private, _ = keys(tmp_path / "keys")
    folder = write_boards(tmp_path / "boards", boards[:2])
    service = serve(tmp_path / "mirror", signing=Signing(boards=folder, key=private, run=RUN))
    with Client(service) as client:
        news = client.watch()
        assert rb"\"version\":3" in next(news).content
        for board in boards[2:]:
            write_boards(folder, [board])
            assert rf"\"version\":{board.version}".encode() in next(news).content
        news.cancel()


def test_who_knows_the_newest_board_waits(tmp_path, mirror, serve):
    service = serve(mirror.folder)
    with Client(service) as client:
        news = client.watch(known=4)
        threading.Timer(0.3, news.cancel).start()
        with pytest.raises(grpc.RpcError):
            next(news)
        until(lambda: service.counters.watchers == 0)


def test_closing_the_service_lets_watchers_go(mirror, serve):
    service = serve(mirror.folder)
    with Client(service) as client:
        news = client.watch()
        next(news)
        service.close()
        assert list(news) == []


def test_a_manifest_that_is_damaged_is_not_offered_and_stops_nothing(mirror, key, serve):
    service = serve(mirror.folder)
    with Client(service) as client:
        assert key.public.open(client.latest()).version == 4
        mirror.manifest(of_version(mirror, 4).digest).write_bytes(b'{"content": "{}", "signatures": ["00"]}')
        time.sleep(0.2)
        assert key.public.open(client.latest()).version == 4  # what was read before is still offered
    with pytest.raises(InputError, match="take a copy of the whole mirror"):
        serve(mirror.folder)


def test_a_file_that_is_gone_is_not_found(mirror, key, serve):
    name = board_name(mirror, 4)
    (mirror.folder / name).unlink()
    with Client(serve(mirror.folder)) as client:
        assert status_of(lambda: client.chunks(name))[0] is grpc.StatusCode.NOT_FOUND
        assert client.latest()


def test_the_rate_limit_sends_away_and_says_when_to_come_back(mirror, serve):
    service = serve(mirror.folder, limits=Limits(requests_per_second_per_address=2.0))
    with Client(service) as client:
        refused = []
        for _ in range(12):
            try:
                client.latest()
            except grpc.RpcError as error:
                refused.append(error)

    assert 4 <= len(refused) <= 8  # four at once, then two a second
    assert {error.code() for error in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert {error.details() for error in refused} == {"rate-limited"}
    waits = [int(dict(error.trailing_metadata())["retry-after-ms"]) for error in refused]
    assert all(0 < wait <= 501 for wait in waits)
    assert service.counters.rate_limited == len(refused)
    assert service.counters.requests[FETCH, "rate-limited"] == len(refused)


def test_health_is_what_grpc_probes_ask_for(mirror, serve):
    with Client(serve(mirror.folder)) as client:
        assert client.channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=10) == b"\x08\x01"


def test_a_board_that_cannot_be_signed_is_told_and_the_others_go_on_being_served(tmp_path, key, serve):
    private, _ = keys(tmp_path / "signing")
    folder = write_boards(tmp_path / "boards", chain(1))
    service = serve(tmp_path / "mirror", signing=Signing(boards=folder, key=private, run=RUN))
    assert service.problem is None

    (folder / "board-0003.board").write_bytes(b"no board")
    until(lambda: service.problem)

    assert "not a complete fedboard board" in str(service.problem)
    with Client(service) as client:
        assert client.latest()


@pytest.fixture
def simulated(tmp_path, key):
    """A mirror of a run whose noise is seeded, marked as that."""
    return signed_mirror(tmp_path / "simulated", chain(2, noise=[SeededNoise(0)]), key=key, simulation=True)


def test_a_mirror_of_simulations_is_served_only_if_told(simulated, serve):
    with pytest.raises(PrivacyError, match="is a simulation"):
        serve(simulated.folder)

    with Client(serve(simulated.folder, simulation=True)) as client:
        assert '"protection":"simulation"' in client.latest().content


def test_a_simulation_that_comes_into_a_mirror_later_is_not_handed_out(key, simulated, mirror, serve):
    service = serve(mirror.folder)
    last = of_version(mirror, 4)
    marked = msgspec.structs.replace(
        of_version(simulated, 3).manifest,
        version=7,
        run_id=last.manifest.run_id,
        previous_manifest=last.digest,
        releases=9,
    )
    later = mirror.add(signed_by_hand(marked.to_bytes(), key=key))
    mirror.publish()
    shelf = Shelf(mirror)
    shelf.reload()

    assert shelf.withheld
    assert later.manifest.version == 7
    assert shelf.latest.manifest.version == 4
    with Client(service) as client:
        time.sleep(0.3)
        assert '"version":4' in client.latest().content
        withheld = manifest_name(later.digest)
        assert status_of(lambda: client.chunks(withheld))[0] is grpc.StatusCode.NOT_FOUND


def test_a_seeded_run_is_not_signed_while_serving_and_the_problem_is_told(tmp_path, serve):
    private, _ = keys(tmp_path / "keys")
    boards = chain(2, noise=[SECRET, SECRET, SeededNoise(0)])
    folder = write_boards(tmp_path / "boards", boards[:1])
    service = serve(tmp_path / "mirror", signing=Signing(boards=folder, key=private, run=RUN))

    write_boards(folder, boards[1:])
    until(lambda: service.problem)

    assert "is a simulation" in str(service.problem)
    assert Mirror(tmp_path / "mirror").versions() == [2]
