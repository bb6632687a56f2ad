"""`fedboard flower new`: the app that it writes runs, in this process and by `flwr run`."""

import importlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flwr.app import Context, RecordDict

import fedboard
from fedboard.cli.main import commands
from tests.simulations.flower.local_grid import LocalGrid
from tests.simulations.flower.own_apps import ITEMS, NODES, RATINGS
from tests.simulations.flower.test_over_flower import processes_of


def told(*arguments: object) -> Result:
    return CliRunner().invoke(commands, ["flower", "new", *map(str, arguments)], catch_exceptions=False)


def data_of(folder: Path, *, without: int | None = None) -> Path:
    """The small set as MovieLens writes one."""
    folder.mkdir(parents=True)
    lines = [
        f"{user + 1},{ITEMS[item]},{value},1\n"
        for user, item, value in zip(RATINGS.users, RATINGS.items, RATINGS.values, strict=True)
        if user != without
    ]
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n" + "".join(lines))
    return folder


def config_of(app: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"][
        "config"
    ]
    return found


@contextmanager
def importable(app: Path) -> Iterator[Callable[[str], Any]]:
    """The modules of an app, as Flower finds them."""
    package = app.name.replace("-", "_")
    sys.path.insert(0, str(app))
    try:
        yield lambda name: importlib.import_module(f"{package}.{name}")
    finally:
        sys.path.remove(str(app))
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("apps")
    data = data_of(place / "films")
    made = told(place / "my-films", "--data", data, "--nodes", NODES, "--algorithm", "bias-private")
    assert made.exit_code == 0, made.output
    assert made.output.count("my_films/") == 4
    assert f"then: flwr run {place / 'my-films'} local --stream" in made.output
    return place / "my-films"


def test_it_runs_over_nodes_and_its_board_verifies(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = {**config_of(app), "kernels": "numpy"}
    with importable(app) as module:
        grid = LocalGrid(module("client_app").app, NODES, config)
        context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=config)
        with grid.running():
            module("server_app").main(grid, context)

    printed = capsys.readouterr().out
    assert f"board and certificate: {app / 'run'}" in printed
    assert fedboard.verify(app / "run").holds
    board = fedboard.load_board(app / "run")
    assert len(fedboard.recommend({ITEMS[0]: 5.0}, board, k=3)) == 3


def test_whoever_leaves_changes_nobody_else_s_ratings(app: Path, tmp_path: Path) -> None:
    """Before anything was computed: one user less in the file."""
    whole, left_out = config_of(app)["data"], 7
    fewer = str(data_of(tmp_path / "fewer", without=left_out))
    with importable(app) as module:
        data = module("data")

        def parts_of(source: str) -> dict[str, Any]:
            found = data.ratings(source)
            return dict(zip(map(str, found.user_ids), data.partition(source, 0, 1), strict=True))

        before, after = parts_of(whole), parts_of(fewer)

    assert before.pop(str(left_out + 1))
    assert before == after


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--nodes", "0"), "nodes must be in [1, 10000], got 0"),
        (("--epsilon", "0"), "privacy.epsilon must be a finite number > 0"),
        (("--epsilon", "nan"), "privacy.epsilon"),
        (("--algorithm", "residul"), "residual"),
        (("--data", 'a"b'), "without quotes"),
    ],
)
def test_what_cannot_run_is_not_written(options: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    result = told(tmp_path / "films", *options)

    assert result.exit_code == 2
    assert sentence in result.output
    assert not (tmp_path / "films").exists()


def test_an_app_is_called_as_its_folder_which_may_not_have_any_name(tmp_path: Path) -> None:
    result = told(tmp_path / "My Films")

    assert result.exit_code == 2
    assert "lower-case letters, digits and hyphens" in result.output
    assert not (tmp_path / "My Films").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Flower calls
def test_flower_packs_it_whole(app: Path, tmp_path: Path) -> None:
    """Its own checks of `pyproject.toml`, and that its run's folder is no part of what nodes are sent."""
    from flwr.cli.build import build_fab_from_disk

    fresh = tmp_path / "my-films"
    told(fresh)  # no run in it yet, which Flower may take otherwise
    (app / "run").mkdir(exist_ok=True)
    (app / "run" / "certificate.json").touch()
    for each in (fresh, app):
        with zipfile.ZipFile(io.BytesIO(build_fab_from_disk(each))) as packed:
            names = {name for name in packed.namelist() if not name.startswith(".info")}

        modules = {f"my_films/{name}.py" for name in ("__init__", "client_app", "server_app", "data")}
        assert modules | {"pyproject.toml"} <= names
        assert {name for name in names if name.startswith("run/")} == set()


def clean(home: Path) -> dict[str, str]:
    """The environment of somebody who has just installed fedboard: only reports to makers are off."""
    path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
    off = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", **off}


@pytest.mark.slow
@pytest.mark.thorough
def test_the_guide_s_lines_run_as_they_are_printed(tmp_path: Path) -> None:
    """Flower's own command, its SuperLink and its simulation; they are ended by their pids."""
    if any(taken(port) for port in (39091, 39093)):
        pytest.skip("another SuperLink has Flower's usual ports")
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "flower.md").read_text(encoding="utf-8")
    install, *lines = re.findall(r"^```\n(.*?)```", guide, re.MULTILINE | re.DOTALL)[0].splitlines()
    assert install.split("#")[0].split() == ["pip", "install", "'.[sim]'"]
    data_of(tmp_path / "ml-1m")
    (tmp_path / "my-ratings.csv").write_text(f"item,rating\n{ITEMS[0]},5\n")
    try:
        for line in lines:
            ended = subprocess.run(
                line,
                shell=True,
                cwd=tmp_path,
                env=clean(tmp_path / "home"),
                capture_output=True,
                text=True,
                timeout=500,
            )
            wanted = 5 if "verify" in line else 0  # a simulation: its noise is seeded
            assert ended.returncode == wanted, (line, ended.stdout + ended.stderr)
    finally:
        end_all(str(tmp_path / "home"))


def taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def end_all(mark: str) -> None:
    """Whatever Flower has left running of this run: it starts its SuperLink detached."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in processes_of(mark):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        until = time.monotonic() + 10
        while processes_of(mark) and time.monotonic() < until:
            time.sleep(0.2)
