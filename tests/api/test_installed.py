"""The face as others get it: a wheel, editable installs, and a user's script under a strict type checker."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
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
    wanted = ("api", "cli", "client", "common", "server", "simulations")
    for name in wanted:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def installed(place: Path, source: Path, *options: str) -> Path:
    """A virtual environment with the package in it, and all that it needs from this one; its Python."""
    venv.create(place, with_pip=False)
    site = next(place.glob("lib/python*/site-packages"))
    others = [path for path in sys.path if path.endswith("site-packages")]
    (site / "others.pth").write_text("\n".join(others) + "\n")
    python = place / "bin" / "python"
    quiet = ["-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [python, "-m", "pip", "install", *quiet, "--force-reinstall", *options, source]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=outside())
    assert ended.returncode == 0, ended.stderr
    return python


def outside() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def with_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with a plain install, which is all that type checkers follow."""
    return installed(tmp_path_factory.mktemp("wheel") / "venv", source)


STRICT = ("--config-settings", "editable_mode=strict", "-e")


@pytest.mark.parametrize("options", [(), ("-e",), STRICT], ids=["wheel", "editable", "strict"])
def test_every_kind_of_install_has_the_face_and_what_is_below(
    source: Path, with_wheel: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    python = installed(tmp_path / "venv", source, *options) if options else with_wheel

    for place in (tmp_path, source):
        ended = subprocess.run(
            [python, "-c", LOOK], capture_output=True, text=True, check=False, cwd=place, env=outside()
        )
        assert ended.stdout.strip() == "True True", ended.stderr


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
        "cache",
    ]

    right, wrong = (
        subprocess.run(
            [*check, name], capture_output=True, text=True, check=False, cwd=tmp_path, env=outside()
        )
        for name in ("right.py", "wrong.py")
    )

    assert right.returncode == 0, right.stdout
    found = [line for line in wrong.stdout.splitlines() if " error: " in line]
    assert sorted({line.split(":")[1] for line in found}) == ["4", "5", "6"]
