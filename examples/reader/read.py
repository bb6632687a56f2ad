"""Read the newest board of a mirror and recommend from it, without fedboard: this file is all of it.

    python read.py MIRROR boards.pub my-ratings.csv [--simulation] [--seen FILE] [--witness KEY ...]

MIRROR is a folder, or the address of one (https://...). my-ratings.csv has the header item,rating and names items
by id. FILE keeps the newest manifest that was taken, so that nothing older or other is taken after it. KEY is the
public key of a witness, 64 digits: more than half of those that are named must have cosigned the board.

Written from docs/reader-specification.md alone, whose sections stand in brackets. It follows one pinned key and no
roots [3.3], recomputes no promise [7.2], and knows the own models of 8.1 and 8.2: enough to see how one is made.
"""

import argparse
import csv
import hashlib
import json
import sys
import time
import urllib.error
import urllib.request
import zlib
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

FORMAT, COSIGNATURE = "fedboard-manifest-5", "fedboard-cosignature-1"
LARGEST_MANIFEST, LARGEST_HEADER, MOST_SIGNATURES, MOST_COSIGNATURES = 2**18, 2**26, 16, 32
CLOCKS = 300
HEX = set("0123456789abcdef")
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1"}
OF_A_VERSION = (
    "releases",
    "ledger_head",
    "board_digest",
    "previous_digest",
    "certificate_digest",
    "protection",
)
NOT_A_BOARD = (ValueError, KeyError, TypeError, AttributeError)
PLACE = itemgetter("version", "renewal")  # in the order of all manifests of a run


class RefusedError(Exception):
    """A board that is not taken; the message is the code."""


def need(holds, code):
    """Refuse where something does not hold."""
    if not holds:
        raise RefusedError(code)


RULES = {
    "text": lambda value: isinstance(value, str),
    "size": lambda value: type(value) is int and value > 0,
    "number": lambda value: type(value) is int and 0 <= value < 2**31,
    "digest": lambda value: RULES["text"](value) and len(value) == 64 and set(value) <= HEX,
    "digest?": lambda value: value is None or RULES["digest"](value),
    "time": lambda value: RULES["text"](value) and seconds(value) is not None,
    "format": lambda value: value == FORMAT,
    "run": lambda value: RULES["text"](value) and 0 < len(value) <= 256,
    "run id": lambda value: RULES["text"](value) and len(value) == 32 and set(value) <= HEX,
    "noise": lambda value: value in ("private", "simulation", "no-data"),
    "file": lambda value: fits(FILE, value),
    "signatures": lambda value: isinstance(value, list) and all(map(RULES["text"], value)),
    "cosignatures": lambda value: isinstance(value, list) and all(fits(COSIGNED, one) for one in value),
}
FILE = {"size": "size", "sha256": "digest", "board_size": "size", "board_sha256": "digest"}
COSIGNED = dict.fromkeys(("key", "signature"), "text")
SIGNED = {"content": "text", "signatures": "signatures", "cosignatures": "cosignatures"}
MANIFEST = {
    **{"format": "format", "run": "run", "run_id": "run id", "board_digest": "digest", "protection": "noise"},
    **dict.fromkeys(("releases", "version", "renewal"), "number"),
    **dict.fromkeys(("ledger_head", "previous_manifest", "previous_digest", "certificate_digest"), "digest?"),
    **{"published": "text", "signed": "time", "expires": "time", "key_id": "text", "file": "file"},
}


def fits(rules, value):
    """Whether an object has just these members, each as its rule says."""
    whole = isinstance(value, dict) and set(value) == set(rules)
    return whole and all(RULES[rule](value[name]) for name, rule in rules.items())


def seconds(text):
    """Since 1970 UTC, of a time such as 2026-01-02T03:04:05Z; None where it is none."""
    try:
        told = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return told.timestamp() if told.strftime("%Y-%m-%dT%H:%M:%SZ") == text else None


def verifies(key, signature, form, content):
    """Whether text is the signature, by a key of 32 bytes, of content behind the name of its format [3, 3.4]."""
    try:
        message = form.encode() + b"\0" + content
        Ed25519PublicKey.from_public_bytes(key).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def opened(signed, key):
    """The manifest that a key has signed [3]."""
    need(fits(SIGNED, {"cosignatures": []} | signed if isinstance(signed, dict) else None), "malformed")
    content, given = signed["content"].encode(), signed["signatures"]
    need(len(content) <= LARGEST_MANIFEST, "too-large")
    made = any(verifies(key, one, FORMAT, content) for one in given[:MOST_SIGNATURES])
    need(made and all(set(one) <= HEX for one in given), "bad-signature")
    return read_manifest(signed)


def read_manifest(signed):
    """What a manifest says; its signatures are not looked at [3]."""
    try:
        manifest = {"format": FORMAT, "renewal": 0} | json.loads(signed["content"])
    except (ValueError, TypeError) as error:
        raise RefusedError("malformed") from error
    need(fits(MANIFEST, manifest), "malformed")
    return manifest


def require_cosigned(signed, witnesses):
    """Refuse what fewer than k of the n witnesses have cosigned who are pinned: ``{"keys", "least"}`` [3.4]."""
    content, given = signed["content"].encode(), signed.get("cosignatures", [])[:MOST_COSIGNATURES]
    made = set()
    for key, signature in ((one["key"], one["signature"]) for one in given):
        if key in witnesses["keys"] and verifies(bytes.fromhex(key), signature, COSIGNATURE, content):
            made.add(key)
    need(len(made) >= witnesses["least"], "not-witnessed")


def witnesses_of(keys, least=None):
    """Witnesses to pin: keys of 64 digits, and how many of them must have cosigned [3.4]."""
    least = len(keys) // 2 + 1 if least is None else least
    if not len(keys) < 2 * least <= 2 * len(keys) or len(set(keys)) != len(keys):
        raise ValueError("more than half of the witnesses must cosign, each with a key of its own")
    return {"keys": list(keys), "least": least}


def require_place(signed, manifest, seen, *, earlier):
    """Refuse what does not continue the manifest that was seen; ``earlier`` gives one by its SHA-256 [3.1]."""
    known, last = read_manifest(seen), digest_of(seen)
    need(manifest["run"] == known["run"], "wrong-run")
    need(not contradict(known, manifest), "split-view")
    need(PLACE(manifest) >= PLACE(known), "rollback")
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
    return sha256(signed["content"].encode())


def sha256(content):
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def contradict(one, other):
    """Whether nobody honest can have signed both [3.1]."""
    first, second = sorted((one, other), key=PLACE)
    if first["run"] != second["run"]:
        return False
    if first["run_id"] != second["run_id"] or second["releases"] < first["releases"]:
        return True
    if first["version"] == second["version"]:
        return any(first[name] != second[name] for name in OF_A_VERSION)
    return second["version"] == first["version"] + 1 and second["previous_digest"] != first["board_digest"]


def require_next(before, after):
    """Refuse what is not the next manifest in a chain, whose SHA-256 fits [3.1]."""
    need(all(before[name] == after[name] for name in ("run", "run_id")), "wrong-run")
    grown = after["releases"] - before["releases"]
    need(grown > 0 or (grown == 0 and after["ledger_head"] == before["ledger_head"]), "ledger-changed")
    need(after["version"] >= before["version"] and not contradict(before, after), "broken-chain")
    renewed = after["version"] == before["version"]
    need(after["renewal"] == (before["renewal"] + 1 if renewed else 0), "broken-chain")


def board_file(content, file):
    """The board file that was packed, never inflating more than was stated [3.2, 4]."""
    need(len(content) >= file["size"], "unreachable")
    need(len(content) == file["size"] and sha256(content) == file["sha256"], "wrong-digest")
    inflate = zlib.decompressobj(31)
    try:
        found = inflate.decompress(content, file["board_size"] + 1)
    except zlib.error as error:
        raise RefusedError("malformed") from error
    need(len(found) == file["board_size"] and inflate.eof and not inflate.unused_data, "malformed")
    need(sha256(found) == file["board_sha256"], "wrong-digest")
    return found


def canonical(value):
    """Canonical JSON [1]."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def read_board(content):
    """A board file as a dictionary: its description, ``digest``, ``ids``, ``titles`` and ``arrays`` [5, 6]."""
    length = int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8 : 8 + length].decode()), memoryview(content)[8 + length :]
    described = json.loads(header.pop("__metadata__")["fedboard"])
    certificate, stored, end = described.pop("certificate"), {}, 0
    if described["format"] != "fedboard-board-1" or not 0 < length <= min(LARGEST_HEADER, len(content) - 8):
        raise ValueError("another format")
    for name, entry in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        if not end <= start <= stop <= len(body):
            raise ValueError("arrays overlap, or are cut short")
        stored[name] = np.frombuffer(body[start:stop], DTYPES[entry["dtype"]]).reshape(entry["shape"])
        end = stop
    if sum(array.nbytes for array in stored.values()) < len(body):
        raise ValueError("bytes belong to no array")
    digest = hashlib.sha256(canonical(described))
    for name in sorted(stored):
        digest.update(canonical([name, header[name]["dtype"], header[name]["shape"]]))
        digest.update(stored[name].tobytes())
    titles = stored.get("catalogue/titles")
    return {
        **described,
        "certificate": certificate,
        "digest": digest.hexdigest(),
        "ids": json.loads(stored["catalogue/item_ids"].tobytes()),
        "titles": None if titles is None else json.loads(titles.tobytes()),
        "features": "catalogue/features" in stored,
        "arrays": {name[6:]: array for name, array in stored.items() if name.startswith("array/")},
    }


def protection(board):
    """What the noise of a board is, worked out from its releases [7.1]."""
    releases = (board["certificate"] or {}).get("releases")
    if not releases:
        return "unstated" if board["version"] else "no-data"
    secret = all(has_sound_noise(release) and release["private"] for release in releases)
    return "private" if secret else "simulation"


def has_sound_noise(release):
    """Whether a release states soundly what its noise is [7.1]."""
    label, private = release.get("noise"), release.get("private")
    if not isinstance(label, str) or not isinstance(private, bool):
        return False
    lead = "shares of the clients"
    if "shares" in release:
        lead += f", at least {release['shares']['least']} of them honest, each "
    if label.startswith(lead) != ("shares" in release):
        return False
    secret = "secure: AES-256 in counter mode, keys from the operating system"
    return not private or ("seed" not in release and label.removeprefix(lead) == secret)


def taken(
    signed, fetched, key, *, witnesses=None, seen=None, earlier, simulation=False, now=None, most=2**30
):
    """The board of a signed manifest that is offered as the newest, or ``RefusedError`` with the code [3 to 7.1].

    ``fetched`` gives the bytes of a file, ``earlier`` a signed manifest by the SHA-256 of its content, or None.
    ``seen`` is the signed manifest that was taken last; ``most`` are the bytes that are taken.
    """
    manifest, now = opened(signed, key), time.time() if now is None else now
    if witnesses is not None:
        require_cosigned(signed, witnesses)
    current = seconds(manifest["signed"]) - CLOCKS <= now <= seconds(manifest["expires"]) + CLOCKS
    need(current, "out-of-date")
    need(simulation or manifest["protection"] != "simulation", "simulation")
    if seen is not None:
        require_place(signed, manifest, seen, earlier=earlier)
    file = manifest["file"]
    need(max(file["size"], file["board_size"]) <= most, "too-large")
    content = board_file(fetched(file), file)
    try:
        board = read_board(content)
        found, certificate = protection(board), board["certificate"]
        certified = manifest["board_digest"] if certificate is None else certificate.get("board_digest")
        stated = certificate and (len(certificate["releases"]), certificate.get("ledger_head"))
    except NOT_A_BOARD as error:
        raise RefusedError("wrong-digest") from error
    need(found == manifest["protection"] and certified == manifest["board_digest"], "not-as-stated")
    need(stated in (None, (manifest["releases"], manifest["ledger_head"])), "ledger-changed")
    need(board["digest"] == manifest["board_digest"], "wrong-digest")
    return {**board, "manifest": manifest}


def scores(board, ratings):
    """Of all items for one person, from ``{item id: rating}``, by a model that she keeps [8.1, 8.2]."""
    config, arrays, task = board["config"], board["arrays"], board["task"]
    explicit = config["feedback"] == "explicit"
    plain = not config.get("biases") and config.get("final_user_ridge") is None and not board["features"]
    need(task in ("adadpals", "residual") and plain, "unknown-task")
    numbers = {item: number for number, item in enumerate(board["ids"])}
    items = sorted(numbers[item] for item in ratings)
    own = np.array([ratings[board["ids"][item]] if explicit else 1.0 for item in items])
    factors, start, x = arrays["item_factors"].astype(float), float(arrays.get("mean", [0.0])[0]), 0.0
    ridge, biases, gram = config["user_ridge"], 0.0, config["unobserved_weight"] * factors.T @ factors
    if task == "residual" and explicit:
        unit = float(arrays["spread"][0]) ** 2 if "spread" in arrays else 1.0
        ridge = float(arrays["user_ridge"][0]) if "user_ridge" in arrays else ridge * unit
        biases, x = arrays["item_biases"].astype(float), np.sqrt(ridge / config["user_bias_ridge"])
        factors, gram = np.column_stack([np.full(len(factors), x), factors]), 0.0
    rows, targets = factors[items], own - start - (biases[items] if np.ndim(biases) else 0.0)
    system = rows.T @ rows + ridge * max(len(items), 1) ** config["user_ridge_exponent"] * np.eye(
        rows.shape[1]
    )
    return start + biases + factors @ np.linalg.solve(system + gram, rows.T @ targets)


def best(board, ratings, k=20):
    """Her k best items, best first: ``(id, score)`` [9]."""
    found, learnt, config = scores(board, ratings), board["arrays"]["learnt"], board["config"]
    allowed = [number for number, item in enumerate(board["ids"]) if learnt[number] and item not in ratings]
    ranked = sorted(allowed, key=lambda number: (-found[number], number))[:k]
    if config["feedback"] == "explicit":
        found = np.clip(found, config["rating_low"], config["rating_high"])
    return [(board["ids"][number], float(found[number])) for number in ranked]


def main(mirror, key_file, ratings_file, *, seen_file, named, simulation):
    """Fetch, check, recommend; 0, or 1 where the board is not taken."""

    def read(name, most):
        if mirror.startswith("https://"):
            with urllib.request.urlopen(f"{mirror.rstrip('/')}/{name}") as answer:
                return answer.read(most)
        return (Path(mirror) / name).read_bytes()[:most]

    def earlier(digest):
        try:
            return json.loads(read(f"manifests/{digest}.json", 2 * LARGEST_MANIFEST))
        except (FileNotFoundError, urllib.error.HTTPError):
            return None

    with open(ratings_file, newline="", encoding="utf-8-sig") as rows:
        ratings = {row["item"]: float(row.get("rating") or 1.0) for row in csv.DictReader(rows)}
    signed = json.loads(read("latest.json", 2 * LARGEST_MANIFEST))
    try:
        board = taken(
            signed,
            lambda file: read(f"files/{file['sha256']}", file["size"] + 1),
            load_pem_public_key(Path(key_file).read_bytes()).public_bytes_raw(),
            witnesses=witnesses_of(named) if named else None,
            seen=json.loads(seen_file.read_bytes()) if seen_file and seen_file.exists() else None,
            earlier=earlier,
            simulation=simulation,
        )
    except RefusedError as refused:
        print(f"not taken: {refused}", file=sys.stderr)
        return 1
    if seen_file:
        seen_file.write_text(json.dumps(signed))
    print(f"board {board['version']} of {board['manifest']['run']}, noise: {board['manifest']['protection']}")
    titles = dict(zip(board["ids"], board["titles"] or board["ids"], strict=True))
    for item, score in best(board, ratings):
        print(f"{score:8.3f}  {titles[item]}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("mirror", "key", "ratings"):
        parser.add_argument(name)
    parser.add_argument("--simulation", action="store_true")
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--witness", action="append")
    told = parser.parse_args()
    options = {"seen_file": told.seen, "named": told.witness, "simulation": told.simulation}
    sys.exit(main(told.mirror, told.key, told.ratings, **options))
