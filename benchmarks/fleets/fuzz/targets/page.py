"""The page's own readers, which are of another make: JavaScript, by Node.js, in a process of its own."""

import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleets.fuzz.serving import of_this_process
from fleets.fuzz.targets.boards import size_of
from fleets.fuzz.trials import HangError, Parser

_ROOT = Path(__file__).parents[4]
_NODE = shutil.which("node")
_HEAP = 512
"""MiB of JavaScript's own memory."""
_SAID = tempfile.TemporaryFile()  # noqa: SIM115  # as long as this process lives
"""What it writes where errors go."""
_LONGEST = 1.0
"""Seconds of processor time of a message."""


class _RefusedByPageError(Exception):
    """The page says so; any error is a refusal to it, and shown."""


def page_parsers() -> list[Parser]:
    """None where there is no Node.js."""
    if _NODE is None:
        return []
    board = json.loads((_ROOT / "docs" / "vectors" / "models.json").read_text(encoding="utf-8"))["boards"][0]
    exact, packed = (base64.b64decode(board[name]) for name in ("exact", "packed"))
    signed = json.dumps(board["signed"]).encode()
    kinds: dict[str, tuple[bytes, str, Callable[[bytes, str], None]]] = {
        "board": (exact, "board", _anything),
        "packed": (packed, "packed", _anything),
        "seal": (exact, "board", _green_for(exact)),
        "manifest": (signed, "json", _anything),
    }
    return [
        Parser(
            name=f"page/{kind}",
            read=_by_page(kind, check),
            refusals=(_RefusedByPageError,),
            specimens=(specimen,),
            form=form,
            share=0.1,
        )
        for kind, (specimen, form, check) in kinds.items()
    ]


def _anything(_: bytes, __: str) -> None:
    """No value is wrong."""


def _green_for(sound: bytes) -> Callable[[bytes, str], None]:
    def check(content: bytes, state: str) -> None:
        if state == "passed" and content != sound:
            raise AssertionError("the page is green for a board that nobody signed")

    return check


def _started() -> "subprocess.Popen[str]":
    # Its own bound is that of its heap. A shell lifts ours: what Python would do in the child before it is
    # another program would be done with the threads of gRPC cut off, and gRPC ends such a child.
    unbound = ["/bin/sh", "-c", 'ulimit -S -v "$(ulimit -H -v)"; exec "$@"', "sh"]
    script = str(Path(__file__).parents[1] / "page_reader.mjs")
    return subprocess.Popen(
        [*unbound, str(_NODE), f"--max-old-space-size={_HEAP}", script, str(_ROOT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=_SAID,
        text=True,
    )


_page = of_this_process(_started, has_ended=lambda page: page.poll() is not None)


def _stated(content: bytes) -> int:
    """The size that a manifest would state, which is a whole number; 0 where the header says something else."""
    size: object = size_of(content)
    return size if isinstance(size, int) else 0


def _by_page(kind: str, check: Callable[[bytes, str], None]) -> Callable[[bytes], object]:
    def from_bytes(content: bytes) -> object:
        page = _page()
        asked = {"kind": kind, "content": base64.b64encode(content).decode(), "size": _stated(content)}
        assert page.stdin is not None
        assert page.stdout is not None
        page.stdin.write(json.dumps(asked) + "\n")
        page.stdin.flush()
        line = page.stdout.readline()
        if not line:
            _SAID.seek(0)
            said = _SAID.read().decode(errors="replace").strip()[-300:]
            raise AssertionError(f"the page's process has ended with {page.wait()}: {said}")
        told: dict[str, Any] = json.loads(line)
        if told["seconds"] > _LONGEST:
            raise HangError(f"{told['seconds']:.1f} s")
        if "error" in told:
            raise _RefusedByPageError(f"{told['name']} {told['error'][:60]} {' '.join(told['places'])}")
        check(content, told["value"])
        return None

    return from_bytes
