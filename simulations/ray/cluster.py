"""What goes wrong on a cluster, in our words.

A connection to Ray: to a cluster that is named, or to one that is started on this machine for the run.
"""

import logging
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeAlias

from fedboard.common.errors import FedboardError, InputError, PrivacyError, WorkerDiedError
from fedboard.simulations.engine.starting import environment_with
from fedboard.simulations.ray.software import call_if_same, copy_code, software_here

_ON_WITH: Final = "nothing of this round was released; go on with --resume"


def told(error: Exception) -> Exception:
    """The error to raise for what Ray raised; an error of ours as the worker raised it."""
    from ray import exceptions as of_ray

    match error:
        case of_ray.RayTaskError():
            return _of_a_task(error)
        case of_ray.OutOfMemoryError():
            return WorkerDiedError(
                f"a Ray node ran out of memory again and again; {_ON_WITH}. Give its nodes fewer CPUs, so that "
                "they do less at once, or more memory"
            )
        case of_ray.RuntimeEnvSetupError():
            return InputError(
                f"a Ray node could not take the code that is sent to it ({_first(error)}); see that its folder for "
                "temporary files has room and can be written"
            )
        case of_ray.ObjectStoreFullError() | of_ray.OutOfDiskError():
            return WorkerDiedError(
                f"a Ray node has no room left for the sums of a round ({_first(error)}); {_ON_WITH}"
            )
        case of_ray.RayError():
            return WorkerDiedError(f"the Ray cluster gave up ({_first(error)}); {_ON_WITH}")
    return error


def _of_a_task(error: Exception) -> Exception:
    """What a worker raised; other than our own sentences come with the worker's traceback."""
    cause: Exception = getattr(error, "cause", None) or error
    if isinstance(cause, FedboardError):
        return cause
    if isinstance(cause, ModuleNotFoundError):
        return InputError(
            f"a Ray node lacks the Python package {cause.name}: install what fedboard[sim] needs on every node"
        )
    if cause is not error:
        cause.add_note(f"in a Ray worker:\n{getattr(error, 'traceback_str', '')}")
    return cause


def not_joined(error: Exception, address: str) -> InputError:
    """Ray would not let this process join the cluster there."""
    text = str(error)
    if "Version mismatch" in text:
        return InputError(
            f"the Ray cluster at {address} runs other versions than this process "
            f"({_sentence(text.removeprefix('Version mismatch: '))}); they must be the same"
        )
    if "token" in text.lower():
        return InputError(
            f"the Ray cluster at {address} wants a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH as they "
            "are set there"
        )
    return InputError(
        f"this machine cannot join the Ray cluster at {address} ({_sentence(text)[:200]}); start a node here, "
        f"with ray start --address {address}"
    )


def _first(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".")[:200] if lines else type(error).__name__


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


Ref: TypeAlias = Any
"""Names an object of the cluster (``ray.ObjectRef``), here yet or not."""

RETRIES: Final = 8
"""How often a task is done again whose worker or node was lost, or whose result was lost with a node."""
_REACH_SECONDS = 5.0
_LONGEST_PLACE: Final = 24
"""Of a folder's name: with what Ray puts behind it, that of a socket, 103 at most."""
_LOOPBACK: Final = "127.0.0.1"
"""What a node's address is where Ray was told, before it was imported, that there are no others: it then listens
there alone."""
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # Ray's agents outlive an interrupted run for so long
}
_OF_WORKERS: Final = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Tasks share the cores among them already; their BLAS must not start threads of its own."""


class Cluster:
    """Ray, for the time of a run. Leaving the block ends what the run has there, and a cluster that it started."""

    def __init__(self, address: str | None, *, workers: int) -> None:
        """Say which.

        Args:
            address: ``HOST:PORT`` of a cluster that this machine is a node of, or ``auto`` for the one that runs
                here; None for ``RAY_ADDRESS`` of the environment, and where that is not set for
                Ray on this machine alone, on loopback.
            workers: how many tasks run at once, where Ray is started for the run.

        Raises:
            InputError: Ray is not installed.
        """
        if find_spec("ray") is None:
            raise InputError(
                "runtime 'ray' needs ray, which is not installed: run pip install '.[sim]' "
                "in fedboard's checkout, or take --runtime engine"
            )
        named = address or os.environ.get("RAY_ADDRESS") or None
        self.address = None if named == "local" else named
        self._workers = workers
        self._calls: dict[int, Any] = {}
        self._software = software_here()
        self._stack = ExitStack()

    @property
    def is_local(self) -> bool:
        """Whether it was started for this run, on this machine's loopback."""
        return self.address is None

    def __enter__(self) -> "Cluster":
        """Connect. A cluster that is named is sent fedboard's code; each worker looks for the versions of the rest.

        Raises:
            InputError: nobody answers there.
        """
        with self._stack as stack:
            # Ray tells what it met on the driver's stdout, from a thread, and prints errors of tasks that we raise.
            stack.enter_context(redirect_stdout(sys.stderr))
            stack.enter_context(_quiet())
            stack.enter_context(environment_with({"RAY_IGNORE_UNHANDLED_ERRORS": "1"}))
            self._connect(stack)
            self._require_cores()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _connect(self, stack: ExitStack) -> None:
        usual = {name: os.environ.get(name, value) for name, value in _ENVIRONMENT.items()}
        if self.address is None:
            usual |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", **own_token()}
        with environment_with(usual):
            import ray

            if ray.is_initialized():
                raise InputError(
                    "this process is connected to a Ray cluster already; call ray.shutdown() before the run"
                )
            asked: dict[str, Any] = {
                "runtime_env": self._runtime_env(stack),
                "log_to_driver": False,
                "logging_level": logging.ERROR,
            }
            if self.address is None:
                folder = str(Path(stack.enter_context(_private_folder())) / "r")  # Ray opens it to all
                here = {"num_cpus": self._workers, "include_dashboard": False, "_node_ip_address": _LOOPBACK}
                asked |= {"address": "local", "_temp_dir": folder, **here}
            else:
                _require_reachable(self.address)
                asked["address"] = self.address
            if self.address is None:
                stack.callback(_read_token_anew)  # without it: whoever comes next connects elsewhere
                _read_token_anew()
            stack.callback(ray.shutdown)
            try:
                ray.init(**asked)
            except Exception as error:  # Ray raises whatever it met
                raise not_joined(error, self.address or "this machine") from error
            if self.address is None and any(n["NodeManagerAddress"] != _LOOPBACK for n in self._nodes()):
                raise InputError(
                    "Ray was imported before the run, and would listen beyond this machine: start the run in a "
                    "process of its own, or set RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before Ray is imported"
                )

    def _runtime_env(self, stack: ExitStack) -> dict[str, Any]:
        found: dict[str, Any] = {"env_vars": _OF_WORKERS}
        if self.address is not None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fedboard-code-"))
            found["py_modules"] = [str(copy_code(Path(folder)))]
        return found

    def _require_cores(self) -> None:
        """Tasks would wait for ever, and say nothing."""
        if not any(node["Resources"].get("CPU", 0) >= 1 for node in self._nodes()):
            raise InputError(
                f"no node of the Ray cluster at {self.address} has a core for tasks: start one with ray start "
                "run.address, or set an autoscaler's least number of workers to 1"
            )

    def _nodes(self) -> list[dict[str, Any]]:
        import ray

        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
        return [node for node in nodes if node["Alive"]]

    @property
    def n_cpus(self) -> int:
        """Of all nodes that are there now; at least 1."""
        return max(1, int(sum(node["Resources"].get("CPU", 0) for node in self._nodes())))

    def put(self, value: Any) -> Ref:
        """Lay a value where every worker finds it; it is serialised once."""
        import ray

        return ray.put(value)

    def call(self, function: Callable[..., Any], *arguments: Any, returns: int = 1) -> Any:
        """Have a worker call a module-level function, wherever there is room.

        Args:
            function: gives ``returns`` values.
            arguments: for it; a ``Ref`` is replaced by its value.
            returns: how many.

        Returns:
            A ``Ref`` of what it gives, or a list of them where ``returns`` is more than one.
        """
        import ray

        if returns not in self._calls:
            self._calls[returns] = ray.remote(call_if_same).options(
                num_returns=returns, num_cpus=1, max_retries=RETRIES, retry_exceptions=[OSError]
            )
        return self._calls[returns].remote(self._software, function, *arguments)

    def get(self, refs: Any) -> Any:
        """The value of a ``Ref``, or the values of a list of them.

        Raises:
            WorkerDiedError: Ray lost it and could not get it done again.
            FedboardError: what the worker raised.
        """
        import ray

        try:
            return ray.get(refs)
        except Exception as error:
            raise told(error) from None

    def done(self, refs: Sequence[Ref]) -> list[Ref]:
        """At least one of these, as soon as one is done, well or badly."""
        import ray

        ready: list[Ref] = []
        while not ready:
            ready, _ = ray.wait(list(refs), num_returns=len(refs), timeout=0)
            if not ready:
                ready, _ = ray.wait(list(refs), num_returns=1, timeout=1.0, fetch_local=False)
        return ready


CLUSTER_IS_TRUSTED: Final = (
    "The sums were formed and noised on the machines of a Ray cluster. Each of them, and whoever can reach its "
    "ports or its disks, sees what the aggregator sees: ratings, exact sums and the keys of the noise. They are "
    "trusted as it is."
)
"""For certificates of runs on a cluster that was not started for them alone."""


def require_encrypted(cluster: Cluster, *, private: bool) -> None:
    """Refuse to send secret noise and the sums below it over a network in the clear.

    Args:
        cluster: where they would go.
        private: whether the noise is secret.

    Raises:
        PrivacyError: it is, and Ray does not encrypt.
    """
    encrypts = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")  # as Ray reads it
    if not private or cluster.is_local or encrypts:
        return
    raise PrivacyError(
        f"with privacy.noise 'secure' exact sums and the keys of the noise would go to the Ray cluster at "
        f"{cluster.address} in the clear: switch Ray's encryption on, there and here (RAY_USE_TLS=1, see "
        "docs/guide/ray.md), or let Ray run on this machine alone"
    )


def own_token() -> dict[str, str]:
    """What Ray asks of whoever connects to a cluster that is started for one run; its children inherit it."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _read_token_anew() -> None:
    """Have Ray look at the environment again, which it does once by itself."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")


def _private_folder() -> "tempfile.TemporaryDirectory[str]":
    """For Ray's sockets and logs, and what does not fit into its store: exact sums. Its owner's alone, and gone
    when the run is; by itself Ray lets everybody look, and leaves it.
    """
    usual, short = tempfile.gettempdir(), Path("/tmp")
    if len(usual) > _LONGEST_PLACE and short.is_dir():
        usual = str(short)
    place = os.environ.get("RAY_TMPDIR") or usual
    return tempfile.TemporaryDirectory(prefix="ray-", dir=place, ignore_cleanup_errors=True)


def _require_reachable(address: str) -> None:
    """Ray itself waits a minute and then says little."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise InputError(
            "run.address must be HOST:PORT of a Ray cluster that this machine is a node of, or auto, got "
            f"{address!r}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"no Ray cluster answers at {address} ({why}): start one with ray start --head --port 6379, or leave "
            "run.address out to start Ray on this machine for the run"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray's logger writes to stderr, where progress is told."""
    logger = logging.getLogger("ray")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
