"""What is made for the first page: the output of its lines, and the board of these lines as a page in it."""

import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

PAGE = Path(__file__).parents[1] / "index.md"
FRAME = "<!-- the board page stands here on the site -->"
_BLOCKS = re.compile(r"```python\n(?P<code>.*?)```.*?```text\n(?P<output>.*?)```", re.DOTALL)


def lines_and_output() -> tuple[str, str]:
    """The code of the first page, and the output that it shows."""
    found = _BLOCKS.search(PAGE.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{PAGE} has no code with output")
    return found["code"], found["output"]


def run_lines(place: Path) -> None:
    """Run the code in a folder, and see that it prints what the page says.

    Args:
        place: made; the run of these lines is then ``films`` in it.

    Raises:
        ValueError: it prints something else.
    """
    place.mkdir(parents=True)
    code, told = lines_and_output()
    printed, there = io.StringIO(), Path.cwd()
    os.chdir(place)
    try:
        with redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})
    finally:
        os.chdir(there)
    if printed.getvalue() != told:
        raise ValueError(
            f"docs/{PAGE.name} says\n{told}\nand its lines print\n{printed.getvalue()}\n"
            "If that is what they should print now, put it there."
        )


def board_page(run: Path, page: Path) -> None:
    """Write the board of a run as a page, by the command that anybody has."""
    started = "from fedboard.cli.main import main; main()"
    command = [sys.executable, "-c", started, "board", "page", str(run), "--out", str(page)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)


def framed(text: str) -> str:
    """The first page with the board page in it."""
    frame = '<iframe class="board" src="board.html" title="The board page" loading="lazy"></iframe>'
    return text.replace(FRAME, f"{frame}\n\n[Open it alone](board.html)")
