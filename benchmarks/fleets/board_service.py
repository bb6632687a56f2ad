"""What one board service carries, what each encoding weighs, and how long a reader waits for her first list.

usage: python benchmarks/fleets/board_service.py [--json FILE] [--seconds S] [--clients N] [--calls C] [--quick]

Three parts, all on 127.0.0.1:

- ``service``: downloads per second from one service process at m = 3449, d = 8, without and with TLS, from several
  client processes with several calls each under way; 50th and 99th percentile of their time; CPU of the service for
  one download, which is what limits a core where clients do not share it. The clients count bytes, no more.
- ``encodings``: at 20 000 items and rank 64, bytes, seconds to make and to open, and error of each.
- ``reader``: seconds from the start of a process to her 20 best items, from a cached board and from the service
  with TLS and every check, and the most memory that the process held.

The boards are made up: factors and counts are drawn, titles are put together from words. Random factors compress
less than learnt ones.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

import grpc  # noqa: E402
import numpy as np  # noqa: E402
from process_tree import cpu_seconds  # noqa: E402

from fedboard.common.board import Board, Catalogue  # noqa: E402
from fedboard.common.boards.boards_pb2 import GetRequest  # noqa: E402
from fedboard.common.boards.board_signature import PinnedKey  # noqa: E402
from fedboard.common.boards.manifest import Encoding, Manifest  # noqa: E402
from fedboard.common.boards.methods import GET, LATEST, MAX_MESSAGE_BYTES, method  # noqa: E402
from fedboard.common.boards.packing import pack, unpack  # noqa: E402
from fedboard.common.certificate import certify  # noqa: E402
from fedboard.common.privacy.accounting.budget import Budget  # noqa: E402
from fedboard.common.privacy.adjacency import Adjacency  # noqa: E402
from fedboard.common.privacy.commitment import Commitment  # noqa: E402
from fedboard.common.privacy.releases.gaussian import GaussianRelease  # noqa: E402
from fedboard.common.privacy.releases.noise import SecureNoise  # noqa: E402
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig  # noqa: E402
from fedboard.common.tasks.adadpals.task import AdaDpals  # noqa: E402
from fedboard.server.publishing.limits import Limits  # noqa: E402
from fedboard.server.publishing.mirror import Mirror, publish_into  # noqa: E402
from fedboard.server.publishing.serving import serve_boards  # noqa: E402
from fedboard.server.publishing.signing import SigningKey, create_board_keys  # noqa: E402
from fedboard.server.tls import make_authority, make_server_certificate  # noqa: E402

TARGET = 1000.0
SMALL, LARGE = (3449, 8), (20_000, 64)
WORDS = (
    "the night house of river blue last summer man return lost king garden silent city star winter road " * 2
).split()
SPAWN = multiprocessing.get_context("spawn")
READER = """
import sys
def peak():
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
board, mine = sys.argv[1:3]
if len(sys.argv) > 3:
    from pathlib import Path
    from fedboard.client.boards.cache import BoardCache
    from fedboard.client.boards.feed import BoardFeed
    from fedboard.client.boards.grpc_source import GrpcSource
    from fedboard.common.boards.board_signature import PinnedKey
    from fedboard.common.boards.manifest import Encoding
    address, authority, key, encoding = sys.argv[3:]
    source = GrpcSource(address, authority=Path(authority))
    cache, pinned = BoardCache(Path(board)), PinnedKey.read(Path(key))
    BoardFeed(source, pinned, cache, encoding=Encoding(encoding)).fetch()
    source.close()
fetching = peak()
from pathlib import Path
from fedboard.client.boards.open_board import open_board
from fedboard.client.ratings.own_file import read_own_ratings
from fedboard.client.recommending.recommend import rating_range_of, recommend
opened = open_board(Path(board))
own = read_own_ratings(Path(mine), opened.catalogue, rating_range=rating_range_of(opened))
assert len(recommend(own, opened, k=20)) == 20
print(fetching, peak())
"""


def make_boards(folder: Path, size: tuple[int, int]) -> Path:
    """Two boards that continue each other, versions 3 and 4."""
    n_items, rank = size
    generator = np.random.default_rng(0)
    task = AdaDpals(AdaDpalsConfig(rank=rank))
    positive = {
        name: generator.gamma(2.0, 50.0, size=n_items)
        for name in ("item_counts", "item_ridge", "item_weights")
    }
    board = Board(
        version=3,
        task=task.name,
        config=task.config,
        arrays={
            **positive,
            "item_factors": _factors(generator, size),
            "learnt": np.ones(n_items, dtype=np.uint8),
            "mean": np.array([3.58]),
        },
        catalogue=Catalogue(
            item_ids=tuple(str(item + 1) for item in range(n_items)),
            titles=tuple(f"{' '.join(generator.choice(WORDS, 4)).title()} {item}" for item in range(n_items)),
        ),
    )
    folder.mkdir()
    for version in (3, 4):
        _certified(board).save(folder / f"board-{version:04d}.board")
        board = board.successor(item_factors=_factors(generator, size))
    return folder


def _certified(board: Board) -> Board:
    """With a certificate that holds, since nothing else is signed: one release a round of made-up sums."""
    release = GaussianRelease(
        name="round",
        rows=20,
        width=10,
        layout="vector",
        grid_step=2.0**-8,
        l2_bound=1000,
        same_sign=False,
        adjacency=Adjacency.ADD_REMOVE,
        noise_multiplier=5.0,
        covers="made-up sums",
    )
    releases = [
        {**replace(release, name=f"round-{number}").event(), **SecureNoise().describe()}
        for number in range(board.version)
    ]
    plan = {event["name"]: event["noise_multiplier"] for event in releases}
    certificate = certify(
        releases,
        commitment=Commitment.of(Budget(epsilon=100.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE), plan),
        trust=("Nobody is trusted with made-up numbers.",),
        assumptions=(),
        dataset="made up",
        board_digest=board.digest,
    )
    return board.with_certificate(certificate.to_dict())


def _factors(generator: np.random.Generator, size: tuple[int, int]) -> np.ndarray:
    lengths = generator.gamma(2.0, 0.3, size=(size[0], 1))
    return (generator.normal(size=size) * lengths / np.sqrt(size[1])).astype(np.float32)


def make_place(folder: Path) -> None:
    """Keys, certificates and signed mirrors."""
    private, _ = create_board_keys(folder / "keys")
    make_authority(folder / "authority.pem", folder / "authority.key", name="benchmark")
    make_server_certificate(
        folder / "server.pem",
        folder / "server.key",
        authority=folder / "authority.pem",
        authority_key=folder / "authority.key",
        names=(),
    )
    for name, size in (("small", SMALL), ("large", LARGE)):
        boards = make_boards(folder / f"{name}-boards", size)
        publish_into(Mirror(folder / name), boards, key=SigningKey.read(private), run=name)


def newest(folder: Path, name: str) -> Manifest:
    return PinnedKey.read(folder / "keys/board-signing.pub").open(Mirror(folder / name).signed(4))


def _serve(folder: Path, name: str, tls: bool, ports: "Queue[int]") -> None:
    pair = {"certificate": folder / "server.pem", "private_key": folder / "server.key"} if tls else {}
    no_limit = Limits(requests_per_second=1e9, requests_per_second_per_address=0)
    with serve_boards(folder / name, limits=no_limit, **pair) as service:
        ports.put(service.port)
        service.wait()


@contextmanager
def serving(folder: Path, name: str, *, tls: bool) -> Any:
    """A service in a process of its own: its port and process number."""
    ports: Queue[int] = SPAWN.Queue()
    process = SPAWN.Process(target=_serve, args=(folder, name, tls, ports), daemon=True)
    process.start()
    try:
        yield ports.get(timeout=60), process.pid
    finally:
        process.kill()
        process.join()


def _load(
    folder: Path, port: int, tls: bool, request: bytes, size: int, calls: int, seconds: float, told: Any
) -> None:
    told.put(asyncio.run(_ask(folder, port, tls, request, size, calls, seconds)))


async def _ask(
    folder: Path, port: int, tls: bool, request: bytes, size: int, calls: int, seconds: float
) -> tuple[int, list[float], float]:
    """Ask again and again; number of answers, the time of each, and how long it went on."""
    options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.use_local_subchannel_pool", 1)]
    if tls:
        roots = grpc.ssl_channel_credentials((folder / "authority.pem").read_bytes())
        channel = grpc.aio.secure_channel(f"localhost:{port}", roots, options=options)
    else:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
    times: list[float] = []
    async with channel:
        get, latest = channel.unary_stream(method(GET)), channel.unary_unary(method(LATEST))
        await latest(b"")
        start = time.perf_counter()

        async def one() -> None:
            while time.perf_counter() < start + seconds:
                begun = time.perf_counter()
                if request:
                    arrived = 0
                    async for part in get(request):
                        arrived += len(part)
                    assert arrived > size, "an incomplete board"
                else:
                    await latest(b"")
                times.append(time.perf_counter() - begun)

        await asyncio.gather(*(one() for _ in range(calls)))
        return len(times), times, time.perf_counter() - start


def service_part(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Downloads per second and their percentiles."""
    manifest, found = newest(folder, "small"), {}
    files = {
        "latest": None,
        "exact": manifest.file(Encoding.EXACT),
        "packed": manifest.file(Encoding.PACKED),
        "packed_since": manifest.file(Encoding.PACKED, 3),
        "int8_since": manifest.file(Encoding.INT8, 3),
    }
    for tls in (False, True):
        with serving(folder, "small", tls=tls) as (port, pid):
            for name, file in files.items():
                key = f"{name}.{'tls' if tls else 'plain'}"
                found[key] = _measured(folder, port, pid, tls, file, arguments)
                row = found[key]
                middle, slow, cpu = (
                    1e3 * row[name] for name in ("p50_seconds", "p99_seconds", "cpu_seconds_each")
                )
                print(
                    f"  {key:20s} {row['bytes']:8d} bytes {row['per_second']:8.0f} /s  p50 {middle:6.2f} ms"
                    f"  p99 {slow:6.2f} ms  service CPU {cpu:.3f} ms",
                    flush=True,
                )
    return found


def _measured(
    folder: Path, port: int, pid: int, tls: bool, file: Any, arguments: argparse.Namespace
) -> dict[str, float]:
    request, size = b"", 0
    if file is not None:
        asked = GetRequest(encoding=file.encoding.value)
        if file.bases:
            asked.base = file.bases[-1]
        request, size = asked.SerializeToString(), file.size
    told: Queue[Any] = SPAWN.Queue()
    options = (folder, port, tls, request, size, arguments.calls, arguments.seconds, told)
    clients = [SPAWN.Process(target=_load, args=options) for _ in range(arguments.clients)]
    before = cpu_seconds(pid)
    for client in clients:
        client.start()
    answers = [told.get(timeout=arguments.seconds + 60) for _ in clients]
    for client in clients:
        client.join()
    times = np.concatenate([answer[1] for answer in answers])
    return {
        "bytes": size,
        "per_second": sum(count / seconds for count, _, seconds in answers),
        "p50_seconds": float(np.percentile(times, 50)),
        "p99_seconds": float(np.percentile(times, 99)),
        "cpu_seconds_each": (cpu_seconds(pid) - before) / times.size,
    }


def encodings_part(folder: Path) -> dict[str, Any]:
    """Bytes, seconds and error of each encoding of the large board."""
    exact = np.fromfile(folder / "large-boards/board-0004.board", dtype=np.uint8)
    manifest, found = newest(folder, "large"), {}
    for file in manifest.files:
        row: dict[str, Any] = {"bytes": file.size, "share": file.size / exact.size}
        if file.encoding is not Encoding.EXACT and not file.bases:
            start = time.perf_counter()
            packed = pack(exact, file.encoding, approximates=manifest.board_digest)
            middle = time.perf_counter()
            for _ in unpack(BytesIO(packed.content), board_size=file.board_size):
                pass
            row |= {"pack_seconds": middle - start, "unpack_seconds": time.perf_counter() - middle}
        if file.deviation is not None:
            row |= {name: getattr(file.deviation, name) for name in file.deviation.__struct_fields__}
        name = file.encoding.value + ("_since" if file.bases else "")
        found[name] = row
        print(f"  {name:14s}", "  ".join(f"{key} {value:.4g}" for key, value in row.items()), flush=True)
    return found


def reader_part(folder: Path, runs: int) -> dict[str, Any]:
    """Seconds from process start to a list, and memory."""
    mine = folder / "mine.csv"
    mine.write_text("item,rating\n" + "".join(f"{item},{1 + item % 5}\n" for item in range(1, 41)))
    found: dict[str, Any] = {"cached": _cold(folder / "large-boards/board-0004.board", mine, (), runs)}
    with serving(folder, "large", tls=True) as (port, _):
        for encoding in ("exact", "int8"):
            service = (
                f"localhost:{port}",
                folder / "authority.pem",
                folder / "keys/board-signing.pub",
                encoding,
            )
            found[f"fetched_{encoding}"] = _cold(None, mine, service, runs)
    for name, row in found.items():
        fetched = f", {row['megabytes_fetched']:.0f} MB when fetched" if name != "cached" else ""
        print(f"  {name:14s} {row['seconds']:.2f} s, {row['megabytes']:.0f} MB{fetched}", flush=True)
    return found


def _cold(board: Path | None, mine: Path, service: tuple[Any, ...], runs: int) -> dict[str, float]:
    seconds, peaks = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as fresh:
            arguments = [str(part) for part in (board or fresh, mine, *service)]
            start = time.perf_counter()
            command = [sys.executable, "-c", READER, *arguments]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds.append(time.perf_counter() - start)
            peaks.append([int(kilobytes) / 1024 for kilobytes in done.stdout.split()])
    before, after = np.max(peaks, axis=0)
    return {"seconds": min(seconds), "megabytes": float(after), "megabytes_fetched": float(before)}


def main() -> None:
    """Measure service, encodings and reader, one after the other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--calls", type=int, default=8)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds = 1.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_place(folder)
        print("service: one process, m = 3449, d = 8")
        results: dict[str, Any] = {"service": service_part(folder, arguments)}
        print("encodings: 20 000 items, rank 64")
        results["encodings"] = encodings_part(folder)
        print("reader: process start to 20 best items of 20 000 x 64")
        results["reader"] = reader_part(folder, runs=1 if arguments.quick else 5)
    results["target_per_second"] = TARGET
    results["machine"] = {
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
