"""Notebooks as pages of the site, with what they printed, and as files to download."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from website.notebooks import SOURCES, read
from website.staging import on_the_site

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_FENCE = "~~~~~~"


def stage_notebooks(pages: Path, run: Path | None, shown: set[Path]) -> None:
    """Write a page and an ``.ipynb`` for each notebook.

    Args:
        pages: the folder that the generator reads.
        run: where notebooks were run; those that are not there stay without output, as all do with None.
        shown: files of code that they lead to are added.
    """
    there = pages / "notebooks"
    there.mkdir(exist_ok=True)
    for source in sorted(SOURCES.glob("*.py")):
        name = source.stem
        ran = None if run is None else run / f"{name}.ipynb"
        notebook = read(source) if ran is None or not ran.exists() else nbformat.read(ran, as_version=4)
        text = "\n\n".join(_page(notebook, name, there))
        drawn = [figure.name for figure in there.glob(f"{name}-*.svg")]
        told = on_the_site(text, source, f"notebooks/{name}.md", shown, made=drawn)
        (there / f"{name}.md").write_text(told + "\n", encoding="utf-8")
        for cell in notebook.cells:  # elsewhere the links would lead nowhere
            if cell.cell_type == "markdown":
                cell.source = _LINK.sub(r"\1", cell.source)
        nbformat.write(notebook, there / f"{name}.ipynb")


def _page(notebook: NotebookNode, name: str, there: Path) -> Iterator[str]:
    title, _, rest = notebook.cells[0].source.partition("\n")
    yield title
    yield f'<p class="download"><a href="{name}.ipynb" download>Download this notebook</a></p>'
    yield rest.strip()
    for number, cell in enumerate(notebook.cells[1:], start=1):
        if cell.cell_type == "markdown":
            yield cell.source
            continue
        yield f"{_FENCE}python\n{cell.source}\n{_FENCE}"
        for output in cell.get("outputs", ()):
            yield _output(output, f"{name}-{number}", there)


def _output(output: NotebookNode, name: str, there: Path) -> str:
    """What a cell printed or showed."""
    if output.output_type == "stream":
        return _text(output.text)
    if output.output_type == "error":
        return _text(f"{output.ename}: {output.evalue}", "refused")
    if "image/svg+xml" in output.data:
        (there / f"{name}.svg").write_text(output.data["image/svg+xml"], encoding="utf-8")
        return f'<div class="output" markdown>\n\n![The figure that this cell draws]({name}.svg)\n\n</div>'
    if "text/html" in output.data:
        table = re.sub(r"\n\s*\n", "\n", output.data["text/html"])
        return f'<div class="output">{table}</div>'
    return _text(output.data["text/plain"])


def _text(text: str, kind: str = "output") -> str:
    return f'<div class="output {kind}" markdown>\n\n{_FENCE}text\n{text.rstrip()}\n{_FENCE}\n\n</div>'
