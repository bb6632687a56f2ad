"""Which code a number comes from."""

import hashlib
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

_WITHOUT_EFFECT = ("audit", "drawing", "report")
"""Folders of ``simulations`` that never change what is measured."""


def software() -> str:
    """Name and version."""
    return f"fedboard {version('fedboard')}"


@lru_cache(maxsize=1)
def source_digest() -> str:
    """SHA-256 over the source files that decide what a simulation computes; hex, 12 characters.

    Numbers that were kept from an earlier call are compared with new ones only where this is the same.
    """
    digest = hashlib.sha256()
    for package in ("common", "server", "simulations"):
        root = Path(str(import_module(f"fedboard.{package}").__file__)).parent
        for path in sorted(root.rglob("*.py")):
            relative = path.relative_to(root)
            if relative.parts[0] not in _WITHOUT_EFFECT:
                digest.update(f"{root.name}/{relative}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
