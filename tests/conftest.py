"""What holds for all tests: ``--fast`` leaves out those marked ``slow``, those marked ``thorough`` and the many
examples of some others run with ``--thorough`` alone, the longest files come first, BLAS has one thread, temporary
folders are in memory where that has room, and no example of a property is timed.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.client.page.browser import Page

gc.disable()  # until all tests are found: nothing of that is garbage
for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before NumPy is loaded: the processes share the cores among them
for _variable in ("FORCE_COLOR", "CLICOLOR_FORCE"):  # what is printed is read by tests
    os.environ.pop(_variable, None)
MEMORY, ROOM_BYTES = Path("/dev/shm"), 4 << 30
"""Where the system has a disk in memory, and how much of it has to be free."""
settings.register_profile("fedboard", deadline=None)  # how long an example takes is the machine's business
settings.load_profile("fedboard")

LONGEST = (
    "server/fleet/test_deployment.py",
    "server/fleet/test_copied_state.py",
    "docs/test_site.py",
    "simulations/audit/test_controls.py",
    "examples/test_fleet.py",
    "cli/research/test_audit.py",
    "simulations/flower/test_over_flower.py",
    "simulations/runs/test_removal.py",
    "docs/test_extending.py",
    "server/fleet/test_killed.py",
    "simulations/audit/test_sessions.py",
    "simulations/ray/test_on_ray.py",
    "api/test_installed.py",
    "simulations/audit/test_noise_check.py",
    "simulations/audit/test_small_releases.py",
    "benchmarks/test_fuzz.py",
    "cli/research/test_interruptions.py",
    "common/privacy/accounting/test_sampled_accounting.py",
    "server/fleet/rounds/test_session_rounds.py",
    "simulations/flower/test_in_process.py",
    "client/boards/test_feed.py",
    "simulations/evaluation/test_algorithm_contract.py",
    "server/fleet/rounds/test_admission.py",
    "common/algorithms/residual/test_task.py",
    "client/participation/test_costly_questions.py",
    "common/privacy/accounting/test_sampled_calibration.py",
    "simulations/sweeps/test_sweep.py",
    "server/helper/test_helper_process.py",
    "api/test_simulating.py",
    "server/fleet/rounds/test_helped_and_vouched.py",
    "docs/test_map.py",
    "simulations/audit/test_file_game.py",
    "server/publishing/test_hostile_readers.py",
    "examples/test_python_guide.py",
    "server/publishing/test_service.py",
    "cli/guarantee/test_certificate.py",
    "benchmarks/test_stopping_game.py",
    "test_architecture.py",
    "cli/device/test_board_command.py",
    "cli/research/test_protocols.py",
    "simulations/engine/test_starting.py",
)
"""Those that mostly wait (fleets, Ray, devices that come back later) stand between those that compute, so that no
core has nothing to do.
The others stand in their usual order, those with slow tests first: what comes last is short, so that no process
works alone at the end.
"""
IN_A_BROWSER = frozenset(
    f"tests/{name}"
    for name in (
        "cli/test_live.py",
        "client/verification/test_label_page.py",
        "client/page/test_page_in_browser.py",
        "client/page/test_refused_in_browser.py",
        "client/page/test_seal_in_browser.py",
        "client/page/test_tampering_in_browser.py",
        "docs/test_site.py",
    )
)
"""All in one process, one after the other: a browser's start is longer than most of what is looked at in it."""
ALL_SLOW = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow\b", re.MULTILINE)
"""In a file of which ``--fast`` needs nothing, not even what it imports."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--fast`` and ``--thorough``."""
    parser.addoption("--fast", action="store_true", help="leave out tests that are marked slow")
    parser.addoption(
        "--thorough", action="store_true", help="also those marked thorough, and many more random examples"
    )


def has_room(disk: Path) -> bool:
    """Whether temporary folders may be there: programs are started from some of them."""
    if not os.access(disk, os.W_OK):
        return False
    told = os.statvfs(disk)
    return told.f_bavail * told.f_frsize >= ROOM_BYTES and not told.f_flag & os.ST_NOEXEC


def pytest_configure(config: pytest.Config) -> None:
    """The markers, and where temporary folders are: ledgers wait for the disk at each of thousands of bookings."""
    if "TMPDIR" not in os.environ and has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    config.addinivalue_line(
        "markers", "slow: more than a moment of computing or waiting; --fast leaves it out"
    )
    config.addinivalue_line("markers", "thorough: more of what other tests show too; only --thorough runs it")
    os.environ["FEDBOARD_THOROUGH"] = str(int(config.getoption("thorough")))  # for tests/thorough.py


@pytest.hookimpl(optionalhook=True)  # there is no such hook without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files go to processes as ``--dist loadfile`` has it, those in a browser as if they were one."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "browser" if file in IN_A_BROWSER else file

    return Scheduling(config, log)


@pytest.fixture(scope="session")
def only_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser; skips the test where there is none."""
    from tests.client.page.browser import opened

    with opened(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def page(only_browser: Page) -> Page:
    """The one browser, as if nothing had been seen in it before."""
    only_browser.leave()
    return only_browser


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a file is not even imported."""
    if config.getoption("fast") and collection_path.name.startswith("test_"):
        return ALL_SLOW.search(collection_path.read_text(encoding="utf-8")) is not None or None
    return None


def pytest_collection_finish() -> None:
    """Garbage is looked for again, but not among some million objects of modules and tests, each time anew."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is thorough, and what is slow or move it to the front."""
    if not config.getoption("thorough"):
        thorough = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    slow = [item for item in items if item.get_closest_marker("slow")]
    if config.getoption("fast"):
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in set(slow)]
    longest = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    with_slow = {item.path for item in slow}
    items.sort(key=lambda item: (longest.get(item.path, len(longest)), item.path not in with_slow))
