"""The package as others get it: sdist and wheel, editable installs, and a user's script under a strict checker."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDERS = ("api", "cli", "client", "common", "server", "simulations")
LOOK = "import fedboard, fedboard.common.board as b; print(fedboard.Board is b.Board, len(fedboard.__all__) > 15)"
SCRIPT = """
import fedboard

result = fedboard.simulate(epsilon=5.0, data="synthetic", algorithm="residual", out="runs/first")
print(result.certificate.claim.epsilon + 1.0)
board: fedboard.Board = fedboard.load_board("runs/first")
for found in fedboard.recommend({"Matrix, The": 5.0}, board, k=10):
    print(found.title, found.score + 1.0)
if fedboard.verify("runs/first").private:
    print(fedboard.noise_multiplier(epsilon=1.0, releases=9) + fedboard.epsilon("runs/first"))
frontier = fedboard.sweep(algorithms=["residual"], epsilons=[1.0], data=([1], [1], [3.0]), rating_range=(1, 5))
print([row["epsilon"] for row in frontier.rows])
"""
WRONG = """
import fedboard

fedboard.recomend({"1": 5.0}, "runs/first")
fedboard.recommend({"1": 5.0}, "runs/first", k="ten")
fedboard.simulate(epsilon="five")
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, so that building leaves nothing in it."""
    copy = tmp_path_factory.mktemp("source") / "checkout"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def packages(source: Path) -> Path:
    """A folder with the sdist of that copy, and with the wheel that is made from the sdist alone."""
    build = ["-m", "build", "--no-isolation", "--outdir", source / "dist", source]
    ended = subprocess.run(
        [sys.executable, *build], capture_output=True, text=True, check=False, env=outside()
    )
    assert ended.returncode == 0, ended.stderr
    assert "would be ignored" not in ended.stdout + ended.stderr
    return source / "dist"


def installed(place: Path, source: Path, *options: str) -> Path:
    """A virtual environment with the package in it, and all that it needs from this one; its Python."""
    venv.create(place, with_pip=False)
    site = next(place.glob("lib/python*/site-packages"))
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(others) + "\n")
    python = place / "bin" / "python"
    quiet = [
        "-q",
        "--no-compile",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    command = [python, "-m", "pip", "install", *quiet, "--force-reinstall", *options, source]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=outside())
    assert ended.returncode == 0, ended.stderr
    return python


def outside() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def with_wheel(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with the wheel alone, which is all that type checkers follow."""
    return installed(tmp_path_factory.mktemp("wheel") / "venv", next(packages.glob("*.whl")))


STRICT = ("--config-settings", "editable_mode=strict", "-e")


@pytest.mark.parametrize(
    "options",
    [(), *(pytest.param(more, marks=pytest.mark.thorough) for more in (("-e",), STRICT))],
    ids=["wheel", "editable", "strict"],
)
def test_every_kind_of_install_has_the_face_and_what_is_below(
    source: Path, with_wheel: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    python = installed(tmp_path / "venv", source, *options) if options else with_wheel

    for place in (tmp_path, source):
        ended = subprocess.run(
            [python, "-c", LOOK], capture_output=True, text=True, check=False, cwd=place, env=outside()
        )
        assert ended.stdout.strip() == "True True", ended.stderr


def test_sdist_and_wheel_hold_every_file_and_pass_the_check_of_the_index(
    source: Path, packages: Path
) -> None:
    found = sorted(packages.iterdir())
    check = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *map(str, found)]
    ours = {
        path.relative_to(source).as_posix()
        for folder in FOLDERS
        for path in (source / folder).rglob("*")
        if path.is_file() and "egg-info" not in path.as_posix() and path.suffix != ".pyc"
    }

    checked = subprocess.run(check, capture_output=True, text=True, check=False, env=outside())
    with tarfile.open(found[1]) as sdist, zipfile.ZipFile(found[0]) as wheel:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
        wheeled = set(wheel.namelist())

    assert [path.suffix for path in found] == [".whl", ".gz"]
    assert checked.returncode == 0, checked.stdout
    assert len(ours) > 500
    assert sorted(ours - packed) == []
    in_wheel = {f"fedboard/{name}".replace("fedboard/api/", "fedboard/") for name in ours}
    assert sorted(in_wheel - wheeled) == []
    assert sorted(name for name in wheeled - in_wheel if ".dist-info/" not in name) == []


def test_the_wheel_alone_runs_outside_of_the_checkout(with_wheel: Path, tmp_path: Path) -> None:
    """Compiled on the spot nothing is: that is tested elsewhere."""
    rated = ((user, (5 * user + 3 * n) % 20) for user in range(40) for n in range(10))
    lines = "".join(f"u{user},i{item},{1 + (user + item) % 5}\n" for user, item in rated)
    (tmp_path / "ratings.csv").write_text(f"user,item,rating\n{lines}")
    fedboard = with_wheel.with_name("fedboard")
    simulate = [
        "simulate",
        "--data",
        "ratings.csv",
        "--rating-range",
        "1,5",
        "--rounds",
        "1",
        "--set",
        "settings.rank=2",
    ]
    quiet = ["--set", "run.kernels=numpy", "--no-baselines", "--no-report", "--out", "run"]

    told = [
        subprocess.run(
            [fedboard, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**outside(), "NUMBA_DISABLE_JIT": "1"},
        )
        for words in (["--version"], [*simulate, *quiet], ["certificate", "verify", "run"])
    ]

    assert [ended.returncode for ended in told] == [0, 0, 5], [ended.stderr for ended in told]
    assert told[0].stdout.startswith("fedboard")
    assert list((tmp_path / "run" / "boards").glob("*.board"))


@pytest.mark.thorough
def test_a_user_s_script_passes_a_strict_checker_and_its_mistakes_do_not(
    with_wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "right.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(WRONG)
    check = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        with_wheel,
        "--cache-dir",
        os.devnull,
    ]

    checked = subprocess.run(
        [*check, "right.py", "wrong.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=outside(),
    )

    assert checked.returncode == 1, checked.stderr
    found = [line for line in checked.stdout.splitlines() if " error: " in line]
    assert sorted({tuple(line.split(":")[:2]) for line in found}) == [("wrong.py", n) for n in "456"]
