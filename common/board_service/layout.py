"""The files of a mirror: a folder that any web server can serve, and that the gRPC service reads.

``latest.json`` is the newest board's signed manifest, ``manifests/0003.json`` that of version 3, and
``files/<SHA-256>`` is a file that a manifest names; ``roots/2.root.json`` is the root document of version 2, where
the publisher has any. Files and roots never change; a manifest is replaced where it is signed again,
``latest.json`` with it, both atomically. ``log.tlog-proof``, where boards are logged, is replaced before a new
board's manifest is there.
"""

LATEST = "latest.json"
MANIFESTS = "manifests"
FILES = "files"
ROOTS = "roots"
LOG_PROOF = "log.tlog-proof"


def manifest_name(version: int) -> str:
    """Where the manifest of a version lies, from the mirror's root."""
    return f"{MANIFESTS}/{version:04d}.json"


def file_name(sha256: str) -> str:
    """Where a file lies, from the mirror's root."""
    return f"{FILES}/{sha256}"


def root_name(version: int) -> str:
    """Where the root of a version lies, from the mirror's root."""
    return f"{ROOTS}/{version}.root.json"
