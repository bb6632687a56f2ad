"""The shape of the house: who may import whom, and that the package list is what is on disk."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("common", "client", "server", "simulations", "cli")
MAY_IMPORT = {
    "common": {"common"},
    "client": {"common", "client"},
    "server": {"common", "server"},
    "simulations": {"common", "client", "server", "simulations"},
    "cli": {"common", "client", "server", "simulations", "cli"},
}
BASE_INSTALL = {"click", "cryptography", "google", "grpc", "msgspec", "numpy", "scipy"}
EXTRAS = {
    "common": {"cvxpy", "dp_accounting", "numba", "llvmlite"},
    "client": set(),
    "server": {"dp_accounting", "prometheus_client"},
    "simulations": {
        "dp_accounting",
        "jinja2",
        "markupsafe",
        "matplotlib",
        "numba",
        "pyarrow",
    },
    "cli": {"rich"},
}
FLOWER = ("client/fleet", "server/fleet", "simulations/flower", "common/rounds/flower_record.py")
"""Where Flower, and the libraries that come with it, may be imported."""
WITH_FLOWER = {"flwr", "httpx", "starlette", "uvicorn"}


def speaks_flower(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / place) for place in FLOWER)


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported_modules(path: Path, *, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_point_one_way(folder: str) -> None:
    for path in sources(folder):
        for module in imported_modules(path):
            if module.startswith("fedboard"):
                target = module.split(".")[1] if "." in module else "fedboard"
                assert target in MAY_IMPORT[folder] | {"fedboard"}, f"{path} imports {module}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_only_declared_packages_are_imported(folder: str) -> None:
    import sys

    allowed = BASE_INSTALL | EXTRAS[folder] | {"fedboard"} | set(sys.stdlib_module_names)
    for path in sources(folder):
        roots = {module.split(".")[0] for module in imported_modules(path)}
        here = allowed | WITH_FLOWER if speaks_flower(path) else allowed
        assert roots <= here, f"{path} imports {sorted(roots - here)}"


@pytest.mark.parametrize("folder", ["common", "client", "server"])
def test_a_device_can_import_without_the_extras(folder: str) -> None:
    for path in sources(folder):
        if path.is_relative_to(ROOT / "common" / "kernels"):
            continue  # compiled kernels are imported only where numba is installed
        roots = {module.split(".")[0] for module in imported_modules(path, top_level_only=True)}
        assert not roots & EXTRAS[folder], f"{path} needs {sorted(roots & EXTRAS[folder])} at import"


def test_the_package_list_is_what_is_on_disk() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = set(settings["tool"]["setuptools"]["packages"])
    on_disk = {
        "fedboard." + ".".join(path.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert listed == on_disk


def test_every_folder_with_code_is_a_typed_package() -> None:
    for folder in FOLDERS:
        assert (ROOT / folder / "py.typed").exists()
        for path in sources(folder):
            assert (path.parent / "__init__.py").exists(), f"{path.parent} has no __init__.py"


def test_tests_mirror_the_folders() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        parts = path.parent.relative_to(ROOT / "tests").parts
        assert not parts or (ROOT.joinpath(*parts)).is_dir(), f"{path} tests a folder that does not exist"


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_stay_small(folder: str) -> None:
    for path in sources(folder):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, f"{path} has outgrown one idea"
