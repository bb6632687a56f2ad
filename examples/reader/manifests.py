"""Signed manifests, and where they stand in the history of a run.

Written from docs/reader-specification.md alone, whose sections stand in brackets; nothing of fedboard is imported.
"""

import json
import time
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FORMAT = "fedboard-manifest-3"
LARGEST_MANIFEST, MOST_SIGNATURES = 2**18, 16
CLOCKS = 300
RULES = {
    "text": lambda value: isinstance(value, str),
    "list": lambda value: isinstance(value, list),
    "count": lambda value: type(value) is int and value > 0,
    "version": lambda value: type(value) is int and 0 <= value < 2**31,
    "digest": lambda value: (
        isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
    ),
    "digest?": lambda value: value is None or RULES["digest"](value),
    "object?": lambda value: value is None or isinstance(value, dict),
    "format": lambda value: value == FORMAT,
    "time": lambda value: isinstance(value, str) and seconds(value) is not None,
    "protection": lambda value: value in ("private", "simulation", "no-data"),
    "encoding": lambda value: value in ("exact", "packed", "float16", "int8"),
}
MANIFEST = {
    "format": "format",
    "run": "text",
    "version": "version",
    "board_digest": "digest",
    "previous_digest": "digest?",
    "certificate_digest": "digest?",
    "protection": "protection",
    "published": "text",
    "signed": "time",
    "expires": "time",
    "renewal": "version",
    "key_id": "text",
    "files": "list",
}
FILE = {
    "encoding": "encoding",
    "size": "count",
    "sha256": "digest",
    "bases": "list",
    "board_size": "count",
    "board_sha256": "digest",
    "board_digest": "digest",
    "deviation": "object?",
}


class RefusedError(Exception):
    """A board that is not taken; the message is the code."""


def need(holds, code):
    """Refuse where something does not hold."""
    if not holds:
        raise RefusedError(code)


def opened(signed, pinned):
    """The manifest that was signed by a key (32 bytes), or by enough keys of a root [3, 3.3]."""
    role = {"keys": [pinned], "threshold": 1} if isinstance(pinned, bytes) else pinned["roles"]["targets"]
    pair = isinstance(signed, dict) and set(signed) - {"more"} == {"content", "signature"}
    need(pair and all(RULES["text"](signed[name]) for name in ("content", "signature")), "malformed")
    content = signed["content"].encode()
    need(len(content) <= LARGEST_MANIFEST, "too-large")
    signatures = [signed["signature"], *signed.get("more", [])]
    need(signs(role, signatures, FORMAT, content), "bad-signature")
    manifest = {"format": FORMAT, "renewal": 0} | json.loads(content)
    need(fits(MANIFEST, manifest), "malformed")
    need(all(fits(FILE, {"bases": [], "deviation": None} | file) for file in manifest["files"]), "malformed")
    return manifest


def signs(role, signatures, form, content):
    """Whether enough keys of a role have signed content as of a format; each counts once."""
    if not all(map(is_hex, signatures)):
        return False
    message, found = form.encode() + b"\0" + content, list(map(bytes.fromhex, signatures[:MOST_SIGNATURES]))
    made = sum(any(verifies(key, one, message) for one in found) for key in role["keys"])
    return made >= role["threshold"]


def is_hex(text):
    """Whether this is bytes in hexadecimal."""
    try:
        return bytes.fromhex(text) is not None
    except ValueError:
        return False


def verifies(key, signature, message):
    """Whether bytes are the Ed25519 signature of a message by a key of 32 bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def seconds(text):
    """Since 1970 UTC, of a time such as 2026-01-02T03:04:05Z; None where it is none."""
    try:
        told = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return told.timestamp() if told.strftime("%Y-%m-%dT%H:%M:%SZ") == text else None


def require_current(manifest, now=None):
    """Refuse what may no longer be taken for the newest manifest, or not yet [3.1]."""
    now = time.time() if now is None else now
    need(seconds(manifest["signed"]) <= now + CLOCKS, "out-of-date")
    need(now <= seconds(manifest["expires"]) + CLOCKS, "out-of-date")


def fits(rules, value):
    """Whether an object has just these members, each as its rule says."""
    return set(value) == set(rules) and all(RULES[rule](value[name]) for name, rule in rules.items())


def require_place(manifest, seen, *, simulation):
    """Refuse what does not continue the newest manifest that was seen [3.1]."""
    need(simulation or manifest["protection"] != "simulation", "simulation")
    if seen is None:
        return
    need(manifest["run"] == seen["run"], "wrong-run")
    places = [(one["version"], one["renewal"]) for one in (manifest, seen)]
    need(places[0] >= places[1], "rollback")
    before = {0: manifest["board_digest"], 1: manifest["previous_digest"]}
    steps = manifest["version"] - seen["version"]
    need(before.get(steps, seen["board_digest"]) == seen["board_digest"], "broken-chain")


def chosen(manifest, *, forms=("exact", "packed"), max_bytes=2**30):
    """The smallest complete file of a manifest that becomes the exact board [3.2]."""
    complete = [file for file in manifest["files"] if file["encoding"] in forms and not file.get("bases")]
    file = min(complete, key=lambda file: file["size"])
    need(max(file["size"], file["board_size"]) <= max_bytes, "too-large")
    return file
