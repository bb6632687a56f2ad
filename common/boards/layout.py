"""The files of a mirror: a folder that any web server can serve, and that the gRPC service reads.

``manifests/<SHA-256>.json`` is the signed manifest whose content has that SHA-256; the whole chain is there, and
each names the one before it. ``latest.json`` is the newest one that was published: what comes after it in the chain
still wants cosignatures. ``files/<SHA-256>`` is the packed board that a manifest names; ``roots/2.root.json`` is
the root document of version 2, where the publisher has any; ``witnesses.json`` says whose cosignatures the
publisher waits for. Files, roots and the contents of manifests never change; cosignatures are added to a manifest,
and ``latest.json`` is replaced, both atomically.
"""

LATEST = "latest.json"
MANIFESTS = "manifests"
FILES = "files"
ROOTS = "roots"
WITNESSES = "witnesses.json"


def manifest_name(sha256: str) -> str:
    """Where a manifest lies, from the mirror's root."""
    return f"{MANIFESTS}/{sha256}.json"


def file_name(sha256: str) -> str:
    """Where a file lies, from the mirror's root."""
    return f"{FILES}/{sha256}"


def root_name(version: int) -> str:
    """Where the root of a version lies, from the mirror's root."""
    return f"{ROOTS}/{version}.root.json"
