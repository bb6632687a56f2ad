"""The shape of the house: who may import whom, no circles, folders one can read, the packages that are on disk."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from fedboard.cli.failures import _EXTRAS
from fedboard.common.protocols.registry import PROTOCOL_NAMES

ROOT = Path(__file__).parent.parent
FOLDERS = ("common", "client", "server", "simulations", "cli", "api")
FACE = {path.stem for path in (ROOT / "api").glob("*.py")} - {"__init__"}
"""Modules of ``api/``, which is mapped as the package ``fedboard`` itself."""
MAY_IMPORT = {
    "common": {"common"},
    "client": {"common", "client"},
    "server": {"common", "server"},
    "simulations": {"common", "client", "server", "simulations"},
    "cli": {"common", "client", "server", "simulations", "cli"},
    "api": {"common", "client", "server", "simulations", *FACE},
}
BASE_INSTALL = {"click", "cryptography", "google", "grpc", "msgspec", "numpy"}
EXTRAS = {
    "common": {"cvxpy", "dp_accounting", "numba", "llvmlite", "scipy", "threadpoolctl"},
    "client": set(),
    "server": {"jinja2", "markupsafe", "prometheus_client"},
    "simulations": {
        "jinja2",
        "markupsafe",
        "numba",
        "llvmlite",
        "optuna",
        "duckdb",
        "pyarrow",
        "ray",
        "rich",
        "scipy",
    },
    "cli": {"rich"},
    "api": set(),
}
FLOWER = (
    "client/flower.py",
    "server/flower.py",
    "simulations/flower",
    "common/messages/flower_parts.py",
)
"""Where Flower may be imported."""
WITH_FLOWER = {"flwr"}
NEEDED_BY = {
    "common/messages/flower_parts.py": ("sim",),
    "common/queries": ("optimization",),
    "common/privacy/accounting": ("pld",),
    "common": ("sim",),
    "client/flower.py": ("sim",),
    "client": ("server",),
    "server/flower.py": ("sim",),
    "server": ("server",),
    "simulations": ("sim",),
    "cli": ("sim",),
    "api": ("sim",),
}
"""Which extra installs what a place imports beyond the base install; the first that fits counts."""
DISTRIBUTIONS = {"google": "protobuf", "grpc": "grpcio"}
"""Distributions that are not called as what is imported."""
KNOWN_BAD_BELOW = {
    "cryptography": (50,),
    # 50: a Bleichenbacher oracle in PKCS#7 (CVE-2026-69247); 49: path building without end (CVE-2026-69249) and
    # escapes from name constraints (CVE-2026-69248); 46.0.7 and before: CVE-2026-39892, -34073, -26007
    "h11": (0, 16),  # request smuggling by malformed chunks (CVE-2025-43859)
    "jinja2": (3, 1, 6),  # ways out of the sandbox (CVE-2025-27516, CVE-2024-56326, CVE-2024-56201)
}
"""The first version of a dependency without a known hole."""


PRODUCTION = ("common", "client", "server", "cli/fleet")
"""What runs where people are served; it needs nothing of the simulations."""


def speaks_flower(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / place) for place in FLOWER)


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return _parsed(path.read_text(encoding="utf-8"))


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def nodes_of(path: Path) -> list[ast.AST]:
    """All of a file's, once for the many tests that look at all files."""
    return _nodes_of(path.read_text(encoding="utf-8"))


@cache
def _nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(_parsed(text)))


def statements_of(path: Path) -> list[ast.stmt]:
    """All of a file's, in whatever they stand; a tenth of its nodes."""
    return _statements_of(path.read_text(encoding="utf-8"))


@cache
def _statements_of(text: str) -> list[ast.stmt]:
    found, left = [], [_parsed(text).body]
    while left:
        for statement in left.pop():
            found.append(statement)
            left += [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
            inner = (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ()))
            left += [one.body for one in inner]
    return found


def imported_modules(path: Path, *, top_level_only: bool = False) -> set[str]:
    nodes = parsed(path).body if top_level_only else statements_of(path)
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_point_one_way(folder: str) -> None:
    for path in sources(folder):
        for module in imported_modules(path):
            if module.startswith("fedboard"):
                target = module.split(".")[1] if "." in module else "api"
                assert target in MAY_IMPORT[folder], f"{path} imports {module}"


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_only_declared_packages_are_imported(folder: str) -> None:
    import sys

    allowed = BASE_INSTALL | EXTRAS[folder] | {"fedboard"} | set(sys.stdlib_module_names)
    for path in sources(folder):
        roots = {module.split(".")[0] for module in imported_modules(path)}
        here = allowed | WITH_FLOWER if speaks_flower(path) else allowed
        assert roots <= here, f"{path} imports {sorted(roots - here)}"


def declared() -> dict[str, dict[str, str]]:
    """Extra -> distribution -> its range, with what the extra takes from others; ``base`` is the base install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = {"base": project["dependencies"], **project["optional-dependencies"]}

    def ranges(extra: str) -> dict[str, str]:
        found = {}
        for entry in lists[extra]:
            name, taken, bounds = REQUIREMENT.fullmatch(entry).groups()
            if name == "fedboard":
                found |= {key: value for other in taken.split(",") for key, value in ranges(other).items()}
            else:
                found[name] = bounds
        return found

    return {extra: ranges(extra) for extra in lists}


REQUIREMENT = re.compile(r"([\w-]+)(?:\[([\w,]+)\])?(.*)")


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_imported_is_declared_by_the_extra_that_needs_it(folder: str) -> None:
    """Not merely by what happens to come along with something else."""
    import sys

    lists, known = declared(), set(sys.stdlib_module_names) | {"fedboard"}
    for path in sources(folder):
        place = next(place for place in NEEDED_BY if path.is_relative_to(ROOT / place))
        roots = {module.split(".")[0] for module in imported_modules(path)} - known
        names = {DISTRIBUTIONS.get(root, root.replace("_", "-")) for root in roots} - set(lists["base"])
        for extra in NEEDED_BY[place]:
            assert names <= set(lists[extra]), f"{path}: [{extra}] lacks {sorted(names - set(lists[extra]))}"


def test_what_only_an_extra_installs_is_said_to_be_missing_in_a_sentence() -> None:
    optional = set().union(*EXTRAS.values()) | WITH_FLOWER

    assert optional <= _EXTRAS


def test_no_range_admits_a_version_with_a_known_hole() -> None:
    for extra, ranges in declared().items():
        for name, least in KNOWN_BAD_BELOW.items():
            if name in ranges:
                lower = ranges[name].partition(",")[0].removeprefix(">=")
                assert tuple(map(int, lower.split("."))) >= least, f"[{extra}] admits {name} {lower}"
    assert {"h11", "jinja2", "cryptography"} <= set(declared()["all"]) | set(declared()["base"])


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
        ".".join(("fedboard", *path.parent.relative_to(ROOT).parts)).replace("fedboard.api", "fedboard")
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


def test_the_public_face_imports_nothing_before_it_is_used() -> None:
    at_import = imported_modules(ROOT / "api" / "__init__.py", top_level_only=True)

    assert at_import == {"importlib", "typing"}


def name_of(path: Path) -> str:
    """How the file at this place below the root is imported."""
    name = ".".join(["fedboard", *path.with_suffix("").parts]).removesuffix(".__init__")
    return re.sub(r"^fedboard\.api\b", "fedboard", name)


def imports_of(
    root: Path, folders: Iterable[str] = FOLDERS, *, at_start: bool = False
) -> dict[str, set[str]]:
    """File to the files that it imports; paths below ``root``.

    Args:
        root: of the checkout.
        folders: of the product.
        at_start: only what is imported with it; else also in functions and for types alone.
    """
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    files = {name_of(path.relative_to(root)): path for path in paths}
    found: dict[str, set[str]] = {}
    for path in paths:
        named: set[str] = set()
        for node in parsed(path).body if at_start else statements_of(path):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {name if name in files else str(node.module) for name in inner}
        found[str(path.relative_to(root))] = {str(files[n].relative_to(root)) for n in named & files.keys()}
    return found


def by_folder(imports: Mapping[str, Iterable[str]]) -> dict[str, dict[str, set[str]]]:
    """Folder to what its entries (files, and folders taken as wholes) import of each other."""
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for path, others in imports.items():
        for other in others:
            one, two = path.split("/"), other.split("/")
            shared = next((k for k, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), None)
            if shared is not None:
                found["/".join(one[:shared])][one[shared]].add(two[shared])
    return found


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle(imports_of(ROOT)) == []


def test_no_folder_has_entries_that_import_each_other_in_a_circle() -> None:
    """Neither two folders, nor a folder and a file beside it: each can be read after those that it needs."""
    graphs = by_folder(imports_of(ROOT))

    assert {folder: circle(graph) for folder, graph in graphs.items() if circle(graph)} == {}


@pytest.mark.parametrize(
    "how",
    [
        "from fedboard.common.first.a import x",
        "import fedboard.common.first.a",
        "from fedboard.common.first import a",
        "def late():\n    from fedboard.common.first import a\n    return a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fedboard.common.first.a import x",
    ],
)
@pytest.mark.parametrize("of_files", [True, False])
def test_a_planted_circle_is_found(tmp_path: Path, how: str, of_files: bool) -> None:
    for folder in ("first", "second"):
        (tmp_path / "common" / folder).mkdir(parents=True)
        (tmp_path / "common" / folder / "__init__.py").write_text("")
    (tmp_path / "common" / "first" / "a.py").write_text("x = 1\n")
    (tmp_path / "common" / "second" / "b.py").write_text(how)
    back = "a.py" if of_files else "c.py"
    assert circle(imports_of(tmp_path, ["common"])) == []
    assert circle(by_folder(imports_of(tmp_path, ["common"]))["common"]) == []

    (tmp_path / "common" / "first" / back).write_text("from fedboard.common.second.b import y\n")

    imports = imports_of(tmp_path, ["common"])
    files = {"common/first/a.py", "common/second/b.py"}
    assert set(circle(imports)) == (files if of_files else set())
    assert set(circle(by_folder(imports)["common"])) == {"first", "second"}


def reached(imports: Mapping[str, set[str]], start: Iterable[str]) -> dict[str, str]:
    """File to one that needs it, of all files that these need, directly or through others."""
    waiting = list(start)
    found = dict.fromkeys(waiting, "")
    while waiting:
        path = waiting.pop()
        new = imports[path] - found.keys()
        found |= dict.fromkeys(new, path)
        waiting += new
    return found


@pytest.mark.slow
def test_what_serves_people_needs_no_simulations() -> None:
    """Neither itself nor through what it imports, however late; nor does the start of any command."""
    imports = imports_of(ROOT)
    serving = [path for path in imports if path.startswith(tuple(f"{place}/" for place in PRODUCTION))]
    needed = reached(imports, serving) | reached(imports_of(ROOT, at_start=True), ["cli/main.py"])

    assert {path: by for path, by in needed.items() if path.startswith("simulations/")} == {}


PROTOCOLS = "common/protocols"
ROWS = (
    "rows are the trusted aggregator's messages: whoever makes, carries, sums or attacks them knows its forms"
)
MAY_NAME_A_PROTOCOL = {
    ("client/participation/rounds.py", "trusted"): ROWS,
    ("server/fleet/running.py", "trusted"): ROWS,
    ("server/flower.py", "trusted"): ROWS,
    ("server/fleet/rounds", "trusted"): ROWS,
    ("simulations/engine", "trusted"): ROWS,
    ("simulations/runs/trainer.py", "trusted"): ROWS,
    ("simulations/audit", "trusted"): ROWS,
    ("simulations/evaluation/algorithm_contract.py", "trusted"): ROWS,
    ("simulations/runs/asking.py", "trusted"): "a question is asked of rows, under no other protocol",
    ("client/participation/promises.py", "two-server"): "a device decides by the registered name",
    ("client/participation/promises.py", "secure-sum"): "a device decides by the registered name",
    ("client/participation/promises.py", "distributed-dp"): "a device decides by the registered name",
    ("server/helper", "two-server"): "it is the second server",
    ("simulations/audit/sessions.py", "secure-sum"): "it writes down what the parties of a session hold",
    ("simulations/audit/sessions.py", "two-server"): "it writes down what the parties of a session hold",
    ("simulations/ray/cluster.py", "local"): "Ray's word for a cluster on this machine",
}
"""Where a protocol is named, and why. Elsewhere the registry is asked, a card, or a property of the class: a new
protocol is a folder and a line."""


def texts_of(nodes: Sequence[ast.AST]) -> Iterable[str]:
    """String literals that are not docstrings."""
    statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.value


def named_protocols(root: Path, folders: Iterable[str] = FOLDERS) -> set[tuple[str, str]]:
    """(file, protocol): a literal that is its name, a sentence that quotes it, or an import of its folder."""
    found = set()
    own = {name: f"{PROTOCOLS}/{name.replace('-', '_')}" for name in PROTOCOL_NAMES}
    for path in [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]:
        place = path.relative_to(root)
        if str(place) == f"{PROTOCOLS}/registry.py" or any(
            place.with_suffix("").is_relative_to(o) for o in own.values()
        ):
            continue
        texts, modules = list(texts_of(nodes_of(path))), imported_modules(path)
        for name, folder in own.items():
            package = "fedboard." + folder.replace("/", ".")
            imports = any(module == package or module.startswith(f"{package}.") for module in modules)
            if imports or any(text == name or f"'{name}'" in text for text in texts):
                found.add((str(place), name))
    return found


def allowed_by(place: str, protocol: str) -> set[tuple[str, str]]:
    """Entries of the list that allow it."""
    return {
        entry
        for entry in MAY_NAME_A_PROTOCOL
        if entry[1] == protocol and Path(place).is_relative_to(entry[0])
    }


@pytest.mark.slow
def test_protocols_are_named_in_their_folder_and_the_registry_alone() -> None:
    named = named_protocols(ROOT)

    assert [(place, name) for place, name in sorted(named) if not allowed_by(place, name)] == []
    used = set().union(*(allowed_by(*each) for each in named))
    assert set(MAY_NAME_A_PROTOCOL) - used == set(), "no longer needed on the list"


@pytest.mark.parametrize(
    "planted",
    [
        'if run.protocol == "secure-sum":\n    pass\n',
        'TABLE = {"secure-sum": 1}\n',
        "raise ValueError(\"use protocol 'secure-sum'\")\n",
        "from fedboard.common.protocols.secure_sum.protocol import SecureSum\n",
        "def late():\n    import fedboard.common.protocols.secure_sum.rules\n",
        "match name:\n    case 'secure-sum':\n        pass\n",
    ],
)
def test_a_protocol_that_is_named_elsewhere_is_found(tmp_path: Path, planted: str) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "plan.py").write_text('"""Under secure-sum."""\n# secure-sum\n')
    assert named_protocols(tmp_path, ["server"]) == set()

    (tmp_path / "server" / "plan.py").write_text(planted)

    assert named_protocols(tmp_path, ["server"]) == {("server/plan.py", "secure-sum")}
    assert not allowed_by("server/plan.py", "secure-sum")


@pytest.mark.slow
def test_nothing_that_serves_people_reads_a_card() -> None:
    """Cards are for tables and audits; what a guarantee rests on is in the protocol."""
    reading = {path for path in imports_of(ROOT) if "card_of" in names_in(nodes_of(ROOT / path))}

    assert reading == {f"{PROTOCOLS}/registry.py", "simulations/sessions/choice.py"}


@pytest.mark.slow
def test_there_is_one_loop_over_a_session() -> None:
    """Steps are closed there alone, so that nobody decides anew who is out; the others hand on what it says."""
    closing = {path for path in imports_of(ROOT) if "proceed" in called_in(nodes_of(ROOT / path))}

    assert closing == {"common/protocols/sessions.py", "simulations/audit/sessions.py"}


def called_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Names of the methods that are called."""
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    return {call.attr for call in calls if isinstance(call, ast.Attribute)}


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are defined, imported, read or written."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found |= {node.name, node.asname or node.name}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found
