"""The files of a mirror: a folder that any web server can serve, and that the gRPC service reads.

``latest.json`` is the newest board's signed manifest, ``manifests/0003.json`` that of version 3, and
``files/<SHA-256>`` is a file that a manifest names. Files never change; ``latest.json`` is replaced atomically.
"""

LATEST = "latest.json"
MANIFESTS = "manifests"
FILES = "files"


def manifest_name(version: int) -> str:
    """Where the manifest of a version lies, from the mirror's root."""
    return f"{MANIFESTS}/{version:04d}.json"


def file_name(sha256: str) -> str:
    """Where a file lies, from the mirror's root."""
    return f"{FILES}/{sha256}"
