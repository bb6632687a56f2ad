"""Root documents: who may sign, and how keys are replaced.

Written from docs/reader-specification.md alone, whose sections stand in brackets; nothing of fedboard is imported.
"""

import hashlib
import json
import time

from manifests import CLOCKS, RefusedError, need, seconds, verifies

LARGEST_ROOT, MOST_ROOTS, MOST_KEYS = 2**16, 1024, 16
ROLES = {"root", "targets", "snapshot", "timestamp"}


def of_key(key, witnesses=None):
    """The root of whoever has pinned one key (32 bytes), and maybe witnesses [3.3, 1]."""
    role = {"keys": [key], "threshold": 1}
    return {"version": 1, "expires": None, "roles": dict.fromkeys(ROLES, role), "witnesses": witnesses}


def of_file(content, witnesses=None):
    """A root that is pinned, and maybe witnesses, whatever it says of them [3.3, 1]."""
    root = read_root(content)
    need(has_signed(root["roles"]["root"], root), "bad-root")
    return {**root, "witnesses": witnesses}


def of_witnesses(keys, least=None):
    """Witnesses to pin: keys of 64 digits, and how many of them must have cosigned [3.4]."""
    least = len(keys) // 2 + 1 if least is None else least
    if not len(keys) < 2 * least <= 2 * len(keys) or len(set(keys)) != len(keys) or len(keys) > MOST_KEYS:
        raise ValueError("more than half of the witnesses must cosign, each with a key of its own")
    return {"keys": list(keys), "threshold": least}


def read_root(content):
    """A root document as anybody may have written it; its signatures are not looked at [3.3]."""
    try:
        need(len(content) <= LARGEST_ROOT, "bad-root")
        document = json.loads(content)
        signed, found = document["signed"], document["signatures"]
        signatures = {one["keyid"]: bytes.fromhex(one["sig"]) for one in found}
        keys = {name: key_of(name, key) for name, key in signed["keys"].items()}
        roles = {**signed["roles"], **signed.get("x-fedboard-roles", {})}
        sound = (
            signed["_type"] == "root"
            and signed["spec_version"].split(".")[0] == "1"
            and type(signed["version"]) is int
            and 1 <= signed["version"] < 2**31
            and seconds(signed["expires"]) is not None
            and set(signed["roles"]) == ROLES
            and set(roles) <= ROLES | {"questions", "witnesses"}
            and len(signatures) == len(found)
        )
        need(sound, "bad-root")
        return {
            "version": signed["version"],
            "expires": signed["expires"],
            "roles": {name: role_of(role, keys) for name, role in roles.items()},
            "signatures": signatures,
            "message": canonical(signed),
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RefusedError("bad-root") from error


def key_of(name, key):
    """A key's 32 bytes; its name is the SHA-256 of its canonical form."""
    raw = bytes.fromhex(key["keyval"]["public"])
    form = {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": raw.hex()}}
    need(len(raw) == 32 and key == form, "bad-root")
    need(hashlib.sha256(canonical(form)).hexdigest() == name, "bad-root")
    return raw


def role_of(role, keys):
    """The keys of a role, by their names, and how many of them must sign."""
    names, threshold = role["keyids"], role["threshold"]
    need(len(set(names)) == len(names) <= MOST_KEYS and type(threshold) is int, "bad-root")
    need(1 <= threshold <= len(names), "bad-root")
    return {"keys": [keys[name] for name in names], "threshold": threshold}


def has_signed(role, document):
    """Whether enough keys of a role have signed a document, each under its own name."""
    pairs = [(key, document["signatures"].get(name_of(key))) for key in role["keys"]]
    made = sum(one is not None and verifies(key, one, document["message"]) for key, one in pairs)
    return made >= role["threshold"]


def name_of(key):
    """The name of a key in TUF's documents."""
    form = {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": key.hex()}}
    return hashlib.sha256(canonical(form)).hexdigest()


def followed(root, fetched, now=None):
    """The newest root, one by one; ``fetched`` gives the bytes of a version, or None [3.3, 2 and 3]."""
    for _ in range(MOST_ROOTS):
        content = fetched(root["version"] + 1)
        if content is None:
            break
        new = read_root(content)
        need(new["version"] == root["version"] + 1, "bad-root")
        need(all(has_signed(one["roles"]["root"], new) for one in (root, new)), "bad-root")
        root = {**new, "witnesses": successors(root["witnesses"], new)}
    late = (time.time() if now is None else now) - CLOCKS
    need(root["expires"] is None or late <= seconds(root["expires"]), "root-expired")
    return root


def successors(pinned, new):
    """Who must cosign under the next root: others than are pinned only if enough of these have signed it [3.4]."""
    named = new["roles"].get("witnesses")
    if pinned is None or named is None:
        return pinned
    raw = {"keys": [bytes.fromhex(key) for key in pinned["keys"]], "threshold": pinned["threshold"]}
    same = set(named["keys"]) == set(raw["keys"]) and named["threshold"] == raw["threshold"]
    need(same or has_signed(raw, new), "bad-root")
    try:
        return of_witnesses([key.hex() for key in named["keys"]], named["threshold"])
    except ValueError as error:
        raise RefusedError("bad-root") from error


def canonical(value):
    """The canonical JSON that signatures of roots are over [3.3]."""
    if isinstance(value, str):
        return ('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"').encode()
    if isinstance(value, list):
        return b"[" + b",".join(map(canonical, value)) + b"]"
    if isinstance(value, dict):
        members = (canonical(name) + b":" + canonical(value[name]) for name in sorted(value))
        return b"{" + b",".join(members) + b"}"
    need(value is None or isinstance(value, bool | int), "bad-root")
    return json.dumps(value).encode()
