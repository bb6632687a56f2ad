"""What fedboard takes on a device: disk, import time, memory, and seconds from start to top 20.

usage: python benchmarks/speed/footprint.py [--json FILE] [--venvs FOLDER] [--repeats 5] [--items 20000] [--rank 64]

Makes one fresh virtual environment with the base install and one with ``.[device]`` (needs a package index), then
measures processes of these environments alone: a reader that recommends, a device that answers a question, and a
training device that waits for a server which is away. With ``--venvs`` the environments are kept and used again.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = {"base": "", "device": "[device]"}
INSTALLERS = {"pip", "setuptools", "wheel", "_distutils_hack", "pkg_resources"}
OWN_RATINGS = 200
IDLE_SECONDS = 6.0
MIB = 2**20
NOT_SOURCE = shutil.ignore_patterns(".git", "build", "*.egg-info", "__pycache__", "runs", "tests")

REPORT = """
import atexit, sys

def report():
    def field(path, name):
        return next(int(line.split()[1]) for line in open(path) if line.startswith(name + ":"))
    rss, pss = field("/proc/self/status", "VmHWM"), field("/proc/self/smaps_rollup", "Pss")
    print(f"peak_rss_kb={rss} pss_kb={pss}", file=sys.stderr)

atexit.register(report)
"""
COMMAND = REPORT + "from fedboard.cli.main import main\nsys.argv[0] = 'fedboard'\nmain()\n"
ANSWER = (
    REPORT
    + """
from pathlib import Path
from fedboard.client.answering.rounds import respond
from fedboard.client.device.config import open_device

device, question = map(Path, sys.argv[1:])
with open_device(device) as (source, gate):
    answer = respond(question.read_bytes(), source=source, gate=gate)
if len(answer) < 1000:
    sys.exit("the device refused")  # a code is shorter than any answer
print(len(answer))
"""
)


def main() -> None:
    """Make the environments that are missing, then measure in them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--venvs", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--rank", type=int, default=64)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = measure(folder, arguments.venvs or folder / "venvs", arguments)
    text = json.dumps(found, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n", encoding="utf-8")


def measure(folder: Path, venvs: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    pythons = {name: environment(venvs / name, extra) for name, extra in EXTRAS.items()}
    write_inputs(folder, n_items=arguments.items, rank=arguments.rank)
    runs = arguments.repeats
    board, device = folder / "board-0003.board", folder / "device.toml"
    recommend = ["recommend", folder / "mine.csv", board, "-k", "20", "--json"]
    base = pythons["base"]
    return {
        "machine": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "load_before": os.getloadavg(),
        },
        "board": {"items": arguments.items, "rank": arguments.rank, "mib": board.stat().st_size / MIB},
        "install_mib": {name: installed_mib(python) for name, python in pythons.items()},
        "seconds": {
            "bare interpreter": seconds_of(base, "pass", [], repeats=runs),
            "import what a reader needs": seconds_of(
                base, "import fedboard.client.recommending.recommend", [], repeats=runs
            ),
            "fedboard --help": seconds_of(base, COMMAND, ["--help"], repeats=runs),
            "start to top 20": seconds_of(base, COMMAND, recommend, repeats=runs),
        },
        "reader": memory_of(base, COMMAND, recommend),
        "reader_of_a_device": memory_of(base, COMMAND, ["recommend", device, board, "-k", "20", "--json"]),
        "answering": memory_of(base, ANSWER, [device, folder / "question"]),
        "training_device_idle": idle_memory(pythons["device"], folder),
    }


def environment(folder: Path, extra: str) -> Path:
    """The interpreter of a fresh environment with fedboard and nothing else in it."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        with tempfile.TemporaryDirectory() as scratch:  # building leaves files beside the source
            source = shutil.copytree(ROOT, Path(scratch) / "fedboard", ignore=NOT_SOURCE)
            install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*install, f"{source}{extra}"], check=True)
    return python


def installed_mib(python: Path) -> dict[str, float]:
    """Disk of everything but the installer, by package, the largest ones named."""
    (packages,) = (python.parent.parent / "lib").glob("python*/site-packages")
    sizes = {
        place.name: sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) / MIB
        for place in packages.iterdir()
        if place.name.partition("-")[0] not in INSTALLERS
    }
    largest = sorted(sizes, key=lambda name: -sizes[name])[:8]
    return {"total": round(sum(sizes.values()), 1)} | {name: round(sizes[name], 1) for name in largest}


def write_inputs(folder: Path, *, n_items: int, rank: int) -> None:
    """A made-up board, one person's ratings as CSV and as a device, and a question about that board."""
    from fedboard.client.device.new_device import make_device
    from fedboard.client.ratings.store import OwnRating, RatingStore
    from fedboard.common.rounds.question import Question
    from fedboard.common.wire.sealing import ReplyKey
    from fedboard.common.wire.signing import QuestionKey

    rng = np.random.default_rng(0)
    first, board = made_up_boards(rng, folder, n_items=n_items, rank=rank)
    board.save(folder / "board-0003.board")
    rated = [str(item) for item in rng.choice(n_items, OWN_RATINGS, replace=False)]
    rows = "".join(f"{item},{rng.integers(1, 6)}\n" for item in rated)
    (folder / "mine.csv").write_text(f"item,rating\n{rows}")
    device = make_device(folder, epsilon=100.0, delta=1e-6, adjacency="add-remove")
    with RatingStore.open(folder / "ratings.sqlite") as store:
        store.put(OwnRating(item=item, rating=4.0) for item in rated)
    question = Question(
        run="footprint",
        protocol="trusted",
        form="factored",
        board=first,
        private_noise=True,
        reply_key=ReplyKey().public,
    )
    signing = QuestionKey()
    signing.write(folder)
    (folder / "question").write_bytes(signing.sign(question.content, seconds=86_400))
    server = f'ca_certificate = "{folder}/ca.pem"\nnode_key = "{folder}/node"\naddress = "127.0.0.1:9"\n'
    server += f'question_key = "{folder}/question-signing.pub"\n'
    device.write_text(f"{device.read_text()}\n[server]\n{server}")


def made_up_boards(rng: np.random.Generator, folder: Path, *, n_items: int, rank: int) -> tuple[Any, Any]:
    """A certified board in the middle of a run, to be asked about, and the same numbers as a last one."""
    from fedboard.common.board import Catalogue
    from fedboard.common.privacy.accounting.calibration import noise_multipliers
    from fedboard.common.privacy.adjacency import Adjacency
    from fedboard.common.privacy.ledger.ledger import Budget, Ledger
    from fedboard.common.privacy.releases.noise import SecureNoise
    from fedboard.common.protocols.trusted.protocol import Trusted
    from fedboard.common.tasks.residual.algorithm import Residual
    from fedboard.common.tasks.residual.config import ResidualConfig, ResidualShares, shares_by_release
    from fedboard.common.tasks.shared.ratings_config import with_noise
    from fedboard.server.publication import certificate_for

    config = ResidualConfig(rank=rank, rounds=2)
    shares = shares_by_release(config, ResidualShares())
    task = Residual(with_noise(config, noise_multipliers(5.0, 1e-6, shares)))
    ids = tuple(map(str, range(n_items)))
    titles = tuple(f"A title of usual length, number {number} (1999)" for number in range(n_items))
    board = task.first_board(Catalogue(item_ids=ids, titles=titles))
    budget = Budget(epsilon=6.0, delta=1e-6, adjacency=Adjacency.ADD_REMOVE)
    made = []
    with Ledger.create(folder / "server.sqlite", budget) as ledger:
        while requests := task.requests(board):
            ledger.book_all([{**request.release.event(), **SecureNoise().describe()} for request in requests])
            board = board.successor(
                mean=np.array([3.5]),
                population=np.array([1e5]),
                item_counts=np.full(n_items, 100.0),
                item_weights=np.full(n_items, 0.3),
                weighted_counts=np.full(n_items, 30.0),
                learnt=np.ones(n_items, dtype=np.uint8),
                item_biases=rng.normal(0, 0.3, n_items).astype(np.float32),
                item_factors=rng.normal(0, 0.2, (n_items, rank)).astype(np.float32),
            )
            certificate = certificate_for(board, ledger, trust=Trusted().trust, dataset="made up")
            board = board.with_certificate(certificate.to_dict())
            made.append(board)
    return made[-2], made[-1]


def run_once(python: Path, code: str, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    command = [python, "-c", code, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{arguments}: {ended.stderr}")
    return ended


def seconds_of(python: Path, code: str, arguments: Sequence[str | Path], *, repeats: int) -> dict[str, float]:
    """A process from start to end; the first one, which fills the disk cache, is left out.

    On a machine with other work the processor time says more than the wall time.
    """
    run_once(python, code, arguments)
    wall, cpu = [], []
    for _ in range(repeats):
        start, before = time.perf_counter(), children_cpu()
        run_once(python, code, arguments)
        wall.append(time.perf_counter() - start)
        cpu.append(children_cpu() - before)
    return {
        "median": round(statistics.median(wall), 3),
        "least": round(min(wall), 3),
        "cpu_median": round(statistics.median(cpu), 3),
    }


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory_of(python: Path, code: str, arguments: Sequence[str | Path]) -> dict[str, float]:
    """Most resident memory that a process ever had, and its proportional set at the end."""
    last = run_once(python, code, arguments).stderr.strip().splitlines()[-1]
    numbers = dict(part.split("=") for part in last.split())
    return {
        "peak_rss_mib": round(int(numbers["peak_rss_kb"]) / 1024, 1),
        "pss_at_end_mib": round(int(numbers["pss_kb"]) / 1024, 1),
    }


def idle_memory(python: Path, folder: Path) -> dict[str, float]:
    """Memory of ``fedboard client`` while it waits for a server."""
    with waiting_client(python, folder) as process:
        time.sleep(IDLE_SECONDS)
        if process.poll() is not None:
            raise SystemExit("fedboard client ended; it should wait for its server")
        fields = {
            "rss_mib": (f"/proc/{process.pid}/status", "VmRSS"),
            "peak_rss_mib": (f"/proc/{process.pid}/status", "VmHWM"),
            "pss_mib": (f"/proc/{process.pid}/smaps_rollup", "Pss"),
        }
        return {name: round(kilobytes(*place) / 1024, 1) for name, place in fields.items()}


@contextmanager
def waiting_client(python: Path, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    make = (
        "import sys; from pathlib import Path\n"
        "from fedboard.common.keys.node_keys import make_node_key\n"
        "make_node_key(Path(sys.argv[1]), name='footprint')\n"
    )
    run_once(python, make, [folder / "node"])
    certificate = run_once(python, "import certifi; print(certifi.contents())", []).stdout
    (folder / "ca.pem").write_text(certificate.encode("ascii", "ignore").decode())
    command = [python.with_name("fedboard"), "client", "--config", folder / "device.toml"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def kilobytes(path: str, field: str) -> int:
    lines = Path(path).read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
