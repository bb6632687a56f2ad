"""An environment for each library, made with ``venv`` and ``uv`` or ``pip`` and kept: outside the repository."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from peers_parts.registry import Library

READY = "ready.json"
LAST_WORDS = 400


@dataclass(eq=False)
class SkippedError(Exception):
    """Why a row has no numbers: at which step, and the last thing that was said there."""

    step: str
    reason: str


def default_folder() -> Path:
    """``fedboard/peers`` in the cache folder of this account."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "fedboard" / "peers"


def interpreter_of(library: Library, folder: Path, *, installed_only: bool, most_seconds: float) -> Path:
    """The Python that runs a library's adapter; makes its environment the first time.

    Args:
        library: says what is installed.
        folder: where environments are kept.
        installed_only: whether nothing may be downloaded.
        most_seconds: for one installation.

    Raises:
        SkippedError: it is not there and may not be installed, or does not install.
    """
    if not library.requirements:
        return Path(sys.executable)
    place = folder / f"{library.name}-{_key(library)}"
    python = place / "bin" / "python"
    if (place / READY).is_file() and python.exists():
        return python
    if installed_only:
        raise SkippedError("install", f"not installed yet in {folder}, and nothing is to be downloaded")
    print(f"installs {', '.join(library.requirements)}", flush=True)
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        _said([sys.executable, "-m", "venv", str(place)], most_seconds)
        _said([*_installer(python), *library.requirements], most_seconds)
        (place / READY).write_text(json.dumps({"requirements": library.requirements}))
    except OSError as error:
        raise SkippedError("install", f"no environment can be made in {folder}: {error}") from error
    return python


def _key(library: Library) -> str:
    """So that other requirements or another Python get another environment."""
    asked = json.dumps([sys.version_info[:2], sys.platform, library.requirements])
    return hashlib.sha256(asked.encode()).hexdigest()[:10]


def _installer(python: Path) -> list[str]:
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", str(python)]
    return [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def _said(command: list[str], most_seconds: float) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=most_seconds)
    except subprocess.TimeoutExpired:
        raise SkippedError("install", f"still installing after {most_seconds:.0f} s") from None
    except subprocess.CalledProcessError as failed:
        raise SkippedError("install", last_words(failed.stderr or failed.stdout)) from None


def last_words(text: str) -> str:
    """The last lines that say something, at most so many characters; warnings are left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return " | ".join(lines[-3:])[-LAST_WORDS:] or "nothing was said"
