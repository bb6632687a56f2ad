"""Runs on real Ray nodes, which are processes of this test: the engine's boards, whatever is lost."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedboard.common.arrays import IntArray
from fedboard.common.contribution_bounding.participation import Attendance, FullParticipation, round_name
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.runtime import Traffic
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.engine import StreamLayout
from fedboard.simulations.engine.spans import SpanWork, sums_of_span
from fedboard.simulations.problem import StreamedProblem
from fedboard.simulations.ray import runtime as runtime_module
from fedboard.simulations.ray.cluster import Cluster, require_encrypted
from fedboard.simulations.ray.runtime import OnRay, RayPool, span_on_worker
from fedboard.simulations.runs.calibrated import build_any, load_any
from fedboard.simulations.runs.trainer import Listener
from fedboard.simulations.simulate import simulate
from tests.simulations.flower.small_runs import a_config, digests
from tests.simulations.ray.nodes import Nodes

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Two, of one core each."""
    with ExitStack() as stack:
        found = Nodes(stack)
        found.join()
        yield found


@pytest.fixture(autouse=True)
def many_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "_FEWEST_USERS", 20)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture(scope="module")
def of_the_engine(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    out = tmp_path_factory.mktemp("engine") / "run"
    simulate(a_config("residual"), out, report=False)
    return digests(out)


def marked(marks: str, *given: Any, deadly: bool = True) -> tuple[Any, ...]:
    """A span, by a worker that says where its code is from; the first one that takes the third span dies of it."""
    import fedboard

    start = given[4]
    if deadly and start == 40:
        try:
            os.close(os.open(f"{marks}/died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    Path(f"{marks}/{os.getpid()}").write_text(f"{fedboard.common.__file__}\n{os.getppid()}")
    return span_on_worker(*given)


def marking(monkeypatch: pytest.MonkeyPatch, marks: Path, **settings: bool) -> None:
    """Have workers call ``marked``, which is sent to them."""
    import ray

    marks.mkdir()
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

    def span(*given: Any) -> tuple[Any, ...]:
        return marked(str(marks), *given, **settings)

    monkeypatch.setattr(runtime_module, "span_on_worker", span)


class InterruptedInTheMiddle(Listener):
    """Ctrl-C after some spans of the third round."""

    def __init__(self) -> None:
        self.rounds = 0

    def progress(self, phase: str, done: int, total: int) -> None:
        if phase == "users" and self.rounds == 2 and done >= total // 2:
            raise KeyboardInterrupt

    def round_finished(self, line: Mapping[str, Any]) -> None:
        self.rounds += 1


def test_boards_are_the_engines_without_our_code_there_with_a_worker_killed_and_after_an_interruption(
    nodes: Nodes,
    of_the_engine: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import ray

    config, marks, out = (
        a_config("residual", runtime="ray", address=nodes.address),
        tmp_path / "m",
        tmp_path / "r",
    )
    marking(monkeypatch, marks)

    with pytest.raises(KeyboardInterrupt):
        simulate(config, out, listener=InterruptedInTheMiddle(), report=False)
    assert not ray.is_initialized()
    assert digests(out) == of_the_engine[:3]
    simulate(config, out, resume=True, report=False)

    assert digests(out) == of_the_engine
    assert len(of_the_engine) > 4
    assert (marks / "died").exists()
    assert capsys.readouterr().out == "", "what a command prints is its own"
    told = [path.read_text().split("\n") for path in marks.iterdir() if path.name != "died"]
    assert all("py_modules" in place for place, _ in told), (
        "the code that was sent, not what is installed here"
    )
    assert len({raylet for _, raylet in told}) == 2, "both nodes took spans"


def double(number: int) -> int:
    return 2 * number


def some_numbers(given: IntArray) -> IntArray:
    given += 1  # nor is what comes to a worker another's
    return given


def people_run() -> SimulationConfig:
    """Of people who are made up where they are summed."""
    return parse_config(
        {
            "algorithm": "residual",
            "data": {"source": "synthetic:users=300,items=40,mean=6"},
            "settings": {"rank": 2, "rounds": 1},
            "privacy": {"participation": {"kind": "poisson", "probability": 0.7}},
            "run": {"runtime": "ray", "kernels": "numpy", "block_ratings": 200},
        }
    )


def require_streamed_sums(pool: RayPool) -> None:
    """Sums over a stream that workers open for themselves are those of this process."""
    config = people_run()
    problem = load_any(config)
    assert isinstance(problem, StreamedProblem)
    task = build_any(config, problem, backend="numpy")
    board = task.first_board(problem.catalogue)
    participation = config.privacy.participation.chosen

    def attendance() -> Attendance:
        return Attendance(participation=participation, name=round_name(0), noise=SeededNoise(0))

    asked = attendance().mark(task.requests(board))
    work = SpanWork(
        task=task, stream=problem.stream, splitting=problem.splitting, requests=asked, backend="numpy"
    )
    told: list[tuple[str, int, int]] = []

    given = (task, problem.stream, problem.splitting)
    layout = StreamLayout(block_ratings=100)
    with OnRay(
        *given, protocol=Trusted(), pool=pool, layout=layout, on_progress=lambda *at: told.append(at)
    ) as clients:
        found = clients.gather(board, asked, attendance())

    here = sums_of_span(replace(work, present=attendance().rows(300)), board, 0, 300)
    for name, sums in whole_sums(found.sums, asked).items():
        np.testing.assert_array_equal(sums, here.sums[name])
    assert found.traffic == Traffic.of_counted(here.sizes, len(board.to_bytes()))
    assert told[-1] == ("users", 300, 300)
    assert len(told) == 15


def require_somebody_to_learn_from(pool: RayPool) -> None:
    """As on the engine: seeded noise spends nothing on one user, and says so."""
    run = people_run()
    alone = msgspec.structs.replace(run.data, source="synthetic:users=1,items=40,mean=6")
    config = msgspec.structs.replace(run, data=alone)
    problem = load_any(config)
    assert isinstance(problem, StreamedProblem)
    task = build_any(config, problem, backend="numpy")
    board = task.first_board(problem.catalogue)
    attendance = Attendance(participation=FullParticipation(), name=round_name(0), noise=SeededNoise(0))
    given = (task, problem.stream, problem.splitting)

    with (
        OnRay(*given, protocol=Trusted(), pool=pool) as clients,
        pytest.raises(InputError, match="one user alone has ratings to learn from"),
    ):
        clients.gather(board, task.requests(board), attendance)


def refuse(error: str) -> None:
    raise {"privacy": PrivacyError("a row is too long"), "lacks": ModuleNotFoundError(name="numba")}[error]


def test_a_cluster_is_a_pool_and_sums_streams(nodes: Nodes) -> None:
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    done: list[int] = []
    with Cluster(nodes.address, workers=1) as cluster:
        pool = RayPool(cluster)

        assert pool.n_workers == 2
        assert pool.run([partial(double, k) for k in range(20)], done.append) == list(range(0, 40, 2))
        assert done == list(range(1, 21))
        assert pool.run([]) == []
        (numbers,) = pool.run([partial(some_numbers, np.zeros(100_000, dtype=np.int64))])
        numbers += 1  # whoever merges may add in place
        assert numbers.sum() == 200_000
        require_streamed_sums(pool)
        require_somebody_to_learn_from(pool)
        with pytest.raises(PrivacyError, match=r"^a row is too long$"):
            pool.run([partial(refuse, "privacy")])
        with pytest.raises(InputError, match="lacks the Python package numba"):
            pool.run([partial(refuse, "lacks")])
        with (
            pytest.raises(InputError, match=r"connected to a Ray cluster already"),
            Cluster("auto", workers=1),
        ):
            raise AssertionError("not reached")
        assert pool.run([partial(double, 1)]) == [2], "the one that was refused left it alone"


def test_secret_noise_does_not_go_over_a_network_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    config = a_config(runtime="ray", address="127.0.0.1:1", privacy={"noise": "secure"})

    with pytest.raises(PrivacyError, match=r"in the clear: switch Ray's encryption on, .*RAY_USE_TLS=1"):
        simulate(config, tmp_path / "run", report=False)

    assert not (tmp_path / "run").exists()
    for switched_on in ("1", "true"):
        monkeypatch.setenv("RAY_USE_TLS", switched_on)
        require_encrypted(Cluster("127.0.0.1:1", workers=1), private=True)
    monkeypatch.setenv("RAY_USE_TLS", "0")
    require_encrypted(Cluster("127.0.0.1:1", workers=1), private=False)
    require_encrypted(Cluster(None, workers=1), private=True)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(PrivacyError):
        require_encrypted(Cluster(None, workers=1), private=True)


def test_nobody_answers_there(tmp_path: Path) -> None:
    config = a_config(runtime="ray", address="127.0.0.1:1")

    with pytest.raises(InputError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 .*ray start --head"):
        simulate(config, tmp_path / "run", report=False)

    assert not (tmp_path / "run").exists()
    for address in ("here", "ray://127.0.0.1:1", "127.0.0.1:"):
        with pytest.raises(InputError, match="must be HOST:PORT"), Cluster(address, workers=1):
            pass


@pytest.mark.thorough
def test_a_node_is_killed_in_mid_round_and_another_joins(
    of_the_engine: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killing(Listener):
        def __init__(self, nodes: Nodes) -> None:
            self.nodes, self.doomed, self.rounds = nodes, nodes.join(), 0

        def progress(self, phase: str, done: int, total: int) -> None:
            if phase == "users" and self.rounds == 1 and done >= total // 2 and self.doomed:
                os.kill(self.doomed, signal.SIGKILL)
                self.doomed = 0
                self.nodes.join()

        def round_finished(self, line: Mapping[str, Any]) -> None:
            self.rounds += 1

    marking(monkeypatch, tmp_path / "marks", deadly=False)
    with ExitStack() as stack:
        nodes = Nodes(stack)
        config = a_config("residual", runtime="ray", address=nodes.address)
        listener = Killing(nodes)
        simulate(config, tmp_path / "ray", listener=listener, report=False)

    assert digests(tmp_path / "ray") == of_the_engine


@pytest.mark.thorough
def test_ray_is_started_on_this_machine_where_no_cluster_is_named(
    of_the_engine: list[str], tmp_path: Path
) -> None:
    """What Ray writes, sums that do not fit into its store among it, is its owner's alone, and goes."""
    import ray

    folders = set[Path]()

    class Looking(Listener):
        def progress(self, phase: str, done: int, total: int) -> None:
            if phase == "users":
                folders.add(Path(ray.nodes()[0]["ObjectStoreSocketName"]).parents[3])
                assert all(stat.S_IMODE(folder.stat().st_mode) == 0o700 for folder in folders)

    config = a_config("residual", runtime="ray", workers=2)
    simulate(config, tmp_path / "ray", listener=Looking(), report=False)

    assert digests(tmp_path / "ray") == of_the_engine
    assert len(folders) == 1
    assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ({"runtime": "engine", "address": "h:1"}, "run.address names a Ray cluster"),
        ({"runtime": "ray", "protocol": "secure-sum"}, "it needs run.protocol 'trusted', got 'secure-sum'"),
        ({"runtime": "ray", "dropout": 0.1}, "needs run.runtime 'engine'"),
    ],
)
def test_what_does_not_go_together_is_refused(run: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        a_config(**run)


def test_whoever_reaches_the_port_of_a_local_ray_without_its_token_is_refused() -> None:
    """Any process of this machine can connect to it: another account's, too."""
    import ray

    program = (
        "import sys, ray\nray.init(address=sys.argv[1], logging_level='CRITICAL')\n"
        "print(ray.get(ray.remote(lambda: 'ran as the server').remote()))\n"
    )
    with Cluster(None, workers=1) as cluster:
        address = ray.get_runtime_context().gcs_address
        stranger = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
        known = {**stranger, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        without, wrong = {"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
        strangers = [
            subprocess.Popen(
                [sys.executable, "-c", program, address],
                env=known | own,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for own in (without, wrong)
        ]
        told = [(one.communicate(timeout=300)[0], one.returncode != 0) for one in strangers]
        assert cluster.get(cluster.call(os.getpid)) != os.getpid()

    assert told == [(b"", True)] * 2
    assert not {name for name in os.environ if name.startswith("RAY_AUTH")}
