"""Signed manifests, and where they stand in the history of a run.

Written from docs/reader-specification.md alone, whose sections stand in brackets; nothing of fedboard is imported.
"""

import hashlib
import json
import time
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FORMAT, COSIGNATURE = "fedboard-manifest-5", "fedboard-cosignature-1"
LARGEST_MANIFEST, MOST_SIGNATURES, MOST_COSIGNATURES = 2**18, 16, 32
CLOCKS = 300
HEX = set("0123456789abcdef")
RULES = {
    "text": lambda value: isinstance(value, str),
    "run": lambda value: isinstance(value, str) and 0 < len(value) <= 256,
    "run_id": lambda value: isinstance(value, str) and len(value) == 32 and set(value) <= HEX,
    "list": lambda value: isinstance(value, list),
    "count": lambda value: type(value) is int and value > 0,
    "version": lambda value: type(value) is int and 0 <= value < 2**31,
    "digest": lambda value: isinstance(value, str) and len(value) == 64 and set(value) <= HEX,
    "digest?": lambda value: value is None or RULES["digest"](value),
    "format": lambda value: value == FORMAT,
    "time": lambda value: isinstance(value, str) and seconds(value) is not None,
    "protection": lambda value: value in ("private", "simulation", "no-data"),
    "file": lambda value: isinstance(value, dict) and fits(FILE, value),
}
MANIFEST = {
    "format": "format",
    "run": "run",
    "run_id": "run_id",
    "releases": "version",
    "ledger_head": "digest?",
    "previous_manifest": "digest?",
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
    "file": "file",
}
FILE = {
    "size": "count",
    "sha256": "digest",
    "board_size": "count",
    "board_sha256": "digest",
}
OF_A_VERSION = (
    *("releases", "ledger_head", "board_digest"),
    *("previous_digest", "certificate_digest", "protection"),
)
SIGNED = {"content": "text", "signatures": "list", "cosignatures": "list"}
COSIGNED = {"key": "text", "signature": "text"}


class RefusedError(Exception):
    """A board that is not taken; the message is the code."""


def need(holds, code):
    """Refuse where something does not hold."""
    if not holds:
        raise RefusedError(code)


def opened(signed, root):
    """The manifest that enough keys of a root have signed [3, 3.3]."""
    need(fits(SIGNED, {"cosignatures": []} | signed if isinstance(signed, dict) else {}), "malformed")
    need(all(fits(COSIGNED, one) for one in signed.get("cosignatures", [])), "malformed")
    need(all(isinstance(one, str) for one in signed["signatures"]), "malformed")
    content, signatures = signed["content"].encode(), signed["signatures"]
    need(len(content) <= LARGEST_MANIFEST, "too-large")
    role = root["roles"]["targets"]
    given = list(map(bytes.fromhex, signatures[:MOST_SIGNATURES])) if all(map(is_hex, signatures)) else []
    made = sum(any(verifies(key, one, under(FORMAT, content)) for one in given) for key in role["keys"])
    need(made >= role["threshold"], "bad-signature")
    return read_manifest(signed)


def read_manifest(signed):
    """What a manifest says; its signatures are not looked at [3]."""
    try:
        manifest = {"format": FORMAT, "renewal": 0} | json.loads(signed["content"])
    except (ValueError, TypeError) as error:
        raise RefusedError("malformed") from error
    need(fits(MANIFEST, manifest), "malformed")
    return manifest


def require_cosigned(signed, root):
    """Refuse what too few of the witnesses have cosigned who are pinned [3.4]."""
    if root["witnesses"] is None:
        return
    content, given = signed["content"].encode(), signed.get("cosignatures", [])[:MOST_COSIGNATURES]
    made = {
        one["key"]
        for one in given
        if one["key"] in root["witnesses"]["keys"]
        and is_hex(one["signature"])
        and verifies(bytes.fromhex(one["key"]), bytes.fromhex(one["signature"]), under(COSIGNATURE, content))
    }
    need(len(made) >= root["witnesses"]["threshold"], "not-witnessed")


def under(form, content):
    """What is signed: the name of the format, a zero byte, and the content."""
    return form.encode() + b"\0" + content


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


def require_place(signed, manifest, seen, *, earlier, simulation):
    """Refuse what does not continue the newest manifest that was seen [3.1].

    Args:
        signed: as it came, and enough have signed and cosigned it.
        manifest: what it says.
        seen: the signed manifest that was seen, or None.
        earlier: gives the signed manifest whose content has a SHA-256, or None.
        simulation: whether simulations are taken.
    """
    need(simulation or manifest["protection"] != "simulation", "simulation")
    if seen is None:
        return
    known, last = read_manifest(seen), digest_of(seen)
    need(manifest["run"] == known["run"], "wrong-run")
    need(not contradict(known, manifest), "split-view")
    need(place(manifest) >= place(known), "rollback")
    after, digest = manifest, digest_of(signed)
    while after["version"] > known["version"] and digest != last:
        digest = after["previous_manifest"]
        if digest == last:
            require_next(known, after)
            return
        need(digest is not None, "split-view")
        found = earlier(digest)
        need(found is not None, "broken-chain")
        need(digest_of(found) == digest, "wrong-digest")
        before = read_manifest(found)
        require_next(before, after)
        need(before["version"] >= known["version"] and not contradict(known, before), "split-view")
        after = before


def digest_of(signed):
    """How the next manifest names this one."""
    return hashlib.sha256(signed["content"].encode()).hexdigest()


def place(manifest):
    """In the order of all manifests of a run."""
    return manifest["version"], manifest["renewal"]


def contradict(one, other):
    """Whether nobody honest can have signed both [3.1]."""
    first, second = sorted((one, other), key=place)
    if first["run"] != second["run"]:
        return False
    if first["run_id"] != second["run_id"] or second["releases"] < first["releases"]:
        return True
    if first["version"] == second["version"]:
        return any(first[name] != second[name] for name in OF_A_VERSION)
    steps = second["version"] - first["version"]
    return steps == 1 and second["previous_digest"] != first["board_digest"]


def require_next(before, after):
    """Refuse what is not the next manifest in a chain, whose SHA-256 fits [3.1]."""
    names = ("run", "run_id")
    need(all(before[name] == after[name] for name in names), "wrong-run")
    grown = after["releases"] - before["releases"]
    need(grown > 0 or (grown == 0 and after["ledger_head"] == before["ledger_head"]), "ledger-changed")
    need(after["version"] >= before["version"] and not contradict(before, after), "broken-chain")
    renewed = after["version"] == before["version"]
    need(after["renewal"] == (before["renewal"] + 1 if renewed else 0), "broken-chain")
