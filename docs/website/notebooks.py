"""Notebooks and the lines of the first page: run one after the other in this process.

usage: python -m website.notebooks --out FOLDER [NAME ...]    # in docs/; by default all, and ``first-page``

A notebook is a Python file in percent format (``# %%`` begins a cell, ``# %% [markdown]`` one of text). Each runs
in an empty folder and ends with code that works. A cell with the tag ``raises-exception`` shows what is refused.
The folder gets ``NAME.ipynb``, with output, and ``NAME/`` with the files that the notebook wrote.
"""

import argparse
import ast
import io
import linecache
import os
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import jupytext
from nbformat import NotebookNode, validate, write
from nbformat.v4 import new_output

from website.first_page import run_lines

SOURCES = Path(__file__).parents[1] / "notebooks"
RAISES = "raises-exception"
"""Tag of a cell that must be refused; Jupyter knows it too."""
FIRST_PAGE = "first-page"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


class CellError(Exception):
    """A cell did what it should not."""


def read(source: Path) -> NotebookNode:
    """A notebook without output, as Jupyter opens it."""
    found = jupytext.read(source, fmt="py:percent")
    found.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python", "file_extension": ".py"}}
    for number, cell in enumerate(found.cells):
        cell["id"] = f"cell-{number}"
    return found


def run(notebook: NotebookNode, name: str, place: Path) -> None:
    """Run all cells in a folder, and keep what they print and show.

    Args:
        notebook: gets the output.
        name: for messages.
        place: where its files go; made.

    Raises:
        CellError: a cell fails, or one that must be refused is not.
    """
    place.mkdir(parents=True)
    module = ModuleType("__main__")
    before, there = sys.modules["__main__"], Path.cwd()
    sys.modules["__main__"] = module
    os.chdir(place)
    try:
        counted = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for number, cell in enumerate(counted, start=1):
            cell.execution_count = number
            cell.outputs = _run_cell(cell, number, f"{name}, cell {number}", vars(module))
    finally:
        os.chdir(there)
        sys.modules["__main__"] = before


def _run_cell(cell: NotebookNode, number: int, label: str, names: dict[str, Any]) -> list[NotebookNode]:
    printed, outputs = io.StringIO(), []
    wanted = RAISES in cell.metadata.get("tags", ())
    try:
        with redirect_stdout(printed), redirect_stderr(printed):
            value = _value(cell.source, f"<{label}>", names)
        if value is not None:
            outputs.append(new_output("execute_result", data=_shown(value), execution_count=number))
    except Exception as error:
        if not wanted:
            raise CellError(f"{label}:\n{traceback.format_exc()}") from error
        told = f"{type(error).__name__}: {error}"
        outputs.append(new_output("error", ename=type(error).__name__, evalue=str(error), traceback=[told]))
    else:
        if wanted:
            raise CellError(f"{label} should be refused and is not")
    text = printed.getvalue()
    return [*([new_output("stream", name="stdout", text=text)] if text else []), *outputs]


def _value(source: str, file: str, names: dict[str, Any]) -> Any:
    """Run a cell; what its last line is worth, if that is an expression."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source, file)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, file, "exec"), names)
        return None
    tree.body.pop()
    exec(compile(tree, file, "exec"), names)
    return eval(compile(ast.Expression(last.value), file, "eval"), names)


def _shown(value: Any) -> dict[str, str]:
    """A value in the forms that a notebook can show."""
    shown = {"text/plain": repr(value)}
    table = value._repr_html_() if hasattr(value, "_repr_html_") else None
    if table is not None:
        shown["text/html"] = table
    if hasattr(value, "savefig"):
        import matplotlib as mpl

        drawn = io.BytesIO()
        with mpl.rc_context({"svg.hashsalt": "fedboard"}):
            value.savefig(drawn, format="svg", metadata={"Date": None}, bbox_inches="tight")
        shown["image/svg+xml"] = drawn.getvalue().decode()
    return shown


def main() -> int:
    """Run the notebooks that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="without .py (default: all)")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    asked = parser.parse_args()
    names = asked.names or [FIRST_PAGE, *sorted(file.stem for file in SOURCES.glob("*.py"))]
    try:
        for name in names:
            _run_one(name, asked.out.resolve())
    except (CellError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run_one(name: str, out: Path) -> None:
    if name == FIRST_PAGE:
        run_lines(out / name)
        return
    notebook = read(SOURCES / f"{name}.py")
    run(notebook, name, out / name)
    validate(notebook)
    write(notebook, out / f"{name}.ipynb")


if __name__ == "__main__":
    sys.exit(main())
