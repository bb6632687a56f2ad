"""Draw the map of the house, ``docs/architecture.svg``, from the imports as they are.

usage: python docs/draw_map.py           # writes docs/architecture.svg
       python docs/draw_map.py --check   # exit code 1 if it is not what would be written

A floor is a top-level folder. In it stand its rooms, folders and single files, in columns: a room imports only what
stands left of it on its floor, and floors below. The numbers on a room are the steps of the two ways that
``docs/architecture.md`` tells; each step is a file that must be there.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "docs" / "architecture.md", ROOT / "docs" / "architecture.svg"
FLOORS = (("api", "cli"), ("simulations",), ("server", "client"), ("common",))
"""From the top of the house to the ground; those of one floor do not meet, save that nobody imports ``api``."""
WAYS = {"rating": "#1d6fb8", "epsilon": "#b4501f"}
"""Name -> colour of its steps."""
LEGEND = "A room imports what stands left of it on its floor, and floors below. Outlined: single files."
LEAST_WIDTH = 900
STYLE = (
    "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#1c2430}.title{font-size:13px;font-weight:bold}"
    ".small{font-size:10px;font-weight:normal;fill:#5b6675}.step{font-size:9px;fill:#fff;text-anchor:middle}"
    ".floor{fill:#f4f6f9;stroke:#c3ccd8}.room{fill:#dfe7f1}.file{fill:#fff;stroke:#c3ccd8}"
)
CHARACTER, LINE, PAD, GAP = 6.7, 20, 7, 10
"""Width of a character, height of a room, space in a box and between boxes; pixels."""


@dataclass(frozen=True, slots=True)
class Step:
    """One stop on a way."""

    way: str
    number: int
    path: str


Marks = Mapping[str, list[Step]]
"""Room -> steps in it."""


def steps() -> list[Step]:
    """The steps that the page tells: rows of a table whose first cells are a number and a linked file."""
    found, way = [], ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## The way of an? (\w+)", line):
            way = heading.group(1)
        elif line.startswith("## "):
            way = ""
        elif way and (row := re.match(r"\| (\d+) \| \[`([^`]+)`\]\(\.\./([^)]+)\) \|", line)):
            number, name, path = row.groups()
            if name != path or not (ROOT / path).is_file():
                raise SystemExit(f"{PAGE.name}: step {number} of the way of {way}: no file {path}")
            found.append(Step(way, int(number), path))
    return found


def sources(folder: str) -> list[Path]:
    """The Python files below a top-level folder, those that protoc made left out."""
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if not path.name.endswith("_pb2.py")]


def room_of(path: Path) -> str:
    """``folder/room`` of a file: a folder, or the file itself where it stands in none."""
    parts = path.relative_to(ROOT).parts
    return f"{parts[0]}/{parts[1].removesuffix('.py')}"


@cache
def imports(folder: str) -> Mapping[Path, frozenset[str]]:
    """File -> modules of fedboard that it imports, wherever in it."""
    found = {}
    for path in sources(folder):
        names: set[str] = set()
        for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        found[path] = frozenset(name for name in names if name.startswith("fedboard."))
    return found


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All of a file, in whatever they stand: a tenth of what it is made of."""
    for statement in body:
        yield statement
        inner = (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ()))
        for name in ("body", "orelse", "finalbody"):
            yield from statements(getattr(statement, name, []))
        for one in inner:
            yield from statements(one.body)


def columns(folder: str) -> list[list[str]]:
    """Rooms of a folder; each column imports the ones before it alone."""
    needs: dict[str, set[str]] = {}
    for path, names in imports(folder).items():
        if path.parent == ROOT / folder and path.name == "__init__.py":
            continue
        here = room_of(path)
        there = {"/".join(name.split(".")[1:3]) for name in names if name.count(".") >= 2}
        there |= {f"api/{name.split('.')[1]}" for name in names}  # the face is mapped as fedboard itself
        needs.setdefault(here, set()).update(there)
    rooms = {room: {other for other in needs[room] if other in needs and other != room} for room in needs}
    levels: dict[str, int] = {}

    def level(room: str, above: tuple[str, ...] = ()) -> int:
        if room in above:
            raise SystemExit(f"a circle: {' -> '.join((*above, room))}")
        if room not in levels:
            levels[room] = 1 + max((level(other, (*above, room)) for other in rooms[room]), default=-1)
        return levels[room]

    ordered: dict[int, list[str]] = defaultdict(list)
    for room in sorted(rooms):
        ordered[level(room)].append(room)
    return [ordered[number] for number in sorted(ordered)]


def imported(folder: str) -> set[str]:
    """The other top-level folders that files of this one import."""
    modules = {name.split(".")[1] for names in imports(folder).values() for name in names}
    return {other for floor in FLOORS for other in floor if other != folder} & modules


def rectangle(kind: str, x: float, y: float, width: float, height: float) -> str:
    """A box of a class."""
    return f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="4" class="{kind}"/>'


def words(x: float, y: float, told: str, kind: str = "name") -> str:
    """A line of text of a class; markup in it is drawn."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{told}</text>'


def room_box(room: str, x: float, y: float, width: float, marks: Iterable[Step]) -> list[str]:
    """One room: its name, and the steps that lead through it."""
    kind = "file" if (ROOT / f"{room}.py").is_file() else "room"
    drawn = [rectangle(kind, x, y, width, LINE - 3), words(x + 5, y + 13, escape(room.split("/")[1]))]
    at = x + width - 9
    for step in sorted(marks, key=lambda step: (step.way, -step.number)):
        drawn.append(f'<circle cx="{at:.0f}" cy="{y + 8.5:.1f}" r="7" fill="{WAYS[step.way]}"/>')
        drawn.append(words(at, y + 12, str(step.number), "step"))
        at -= 15
    return drawn


def floor_box(folder: str, x: float, y: float, marks: Marks) -> tuple[list[str], float, float]:
    """One floor with its rooms; also its width and height."""
    drawn: list[str] = []
    at, deepest = x + PAD, 0
    for column in columns(folder):
        width = 12 + max(
            len(room.split("/")[1]) * CHARACTER + 15 * len(marks.get(room, ())) for room in column
        )
        for row, room in enumerate(column):
            drawn += room_box(room, at, y + 26 + row * LINE, width, marks.get(room, ()))
        at, deepest = at + width + GAP, max(deepest, len(column))
    width, height = at - GAP + PAD - x, 26 + deepest * LINE + PAD - 3
    told = f'<tspan class="small">imports {", ".join(_below(folder))}</tspan>' if _below(folder) else ""
    title = words(x + PAD, y + 17, f"{folder}/ {told}", "title")
    return [rectangle("floor", x, y, width, height), title, *drawn], width, height


def picture() -> str:
    """The whole map as SVG."""
    marks: dict[str, list[Step]] = defaultdict(list)
    for step in steps():
        marks[room_of(ROOT / step.path)].append(step)
    drawn = [words(10, 20, LEGEND), words(10, 36, _ways())]
    y, widest = 50.0, LEAST_WIDTH
    for floor in FLOORS:
        x, tallest = 10.0, 0.0
        for folder in floor:
            box, width, height = floor_box(folder, x, y, marks)
            drawn += box
            x, tallest, widest = x + width + 24, max(tallest, height), max(widest, round(x + width + 10))
        y += tallest + 16
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {widest} {y:.0f}" role="img" '
        'aria-label="The folders of fedboard, and who imports whom">'
    )
    ground = f'<rect width="{widest}" height="{y:.0f}" fill="#fff"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *drawn, "</svg>", ""])


def _ways() -> str:
    told = [
        f'<tspan fill="{colour}" font-weight="bold">the way of {name}</tspan>'
        for name, colour in (("a rating", WAYS["rating"]), ("an epsilon", WAYS["epsilon"]))
    ]
    return f"Numbers: steps of {' and of '.join(told)}, told in architecture.md."


def _below(folder: str) -> list[str]:
    """What a folder imports, in the order of the floors; a floor that is not below is a fault."""
    number = next(number for number, floor in enumerate(FLOORS) if folder in floor)
    allowed = [other for floor in FLOORS[number + 1 :] for other in floor]
    if wrong := imported(folder) - set(allowed):
        raise SystemExit(f"{folder} imports {', '.join(sorted(wrong))}, which does not stand below it")
    return [other for other in allowed if other in imported(folder)]


def main() -> int:
    """Write the picture, or compare it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    drawn = picture()
    if not parser.parse_args().check:
        PICTURE.write_text(drawn, encoding="utf-8")
        return 0
    same = PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == drawn
    if not same:
        print(f"{PICTURE.name} is not what the imports are now: python docs/draw_map.py", file=sys.stderr)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
