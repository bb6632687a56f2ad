"""Boards as they come from a mirror: bytes, digest, and what protects them.

Written from docs/reader-specification.md alone, whose sections stand in brackets; nothing of fedboard is imported.
"""

import hashlib
import json
import zlib

import numpy as np
from manifests import RefusedError, need, opened, require_cosigned, require_current, require_place

LARGEST_HEADER = 2**26
DTYPES = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1"}
NOT_A_BOARD = (ValueError, KeyError, TypeError, AttributeError, zlib.error)


def board_file(content, file):
    """The bytes of the board file that a file is, or becomes [3.2]."""
    need(len(content) >= file["size"], "unreachable")
    need(len(content) == file["size"] and sha256(content) == file["sha256"], "wrong-digest")
    try:
        content = unpacked(content, file["board_size"])
    except zlib.error as error:
        raise RefusedError("malformed") from error
    need(sha256(content) == file["board_sha256"], "wrong-digest")
    return content


def sha256(content):
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def unpacked(content, size):
    """The board file of a packed one: one gzip stream of just so many bytes, and never more [4]."""
    inflate = zlib.decompressobj(31)
    found = inflate.decompress(content, size + 1)
    need(len(found) == size and inflate.eof and not inflate.unused_data, "malformed")
    return found


def canonical(value, *, ascii_only=False):
    """Canonical JSON [1]; certificates are hashed with all but printable ASCII escaped [7.2]."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False
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
        "features": features_of(stored, n_items=len(json.loads(stored["catalogue/item_ids"].tobytes()))),
        "arrays": {name[6:]: array for name, array in stored.items() if name.startswith("array/")},
    }


def features_of(stored, *, n_items):
    """Numbers and labels of the items, or None where there are none [5]."""
    names = ("catalogue/features", "catalogue/numbers", "catalogue/labels")
    if not any(name in stored for name in names):
        return None
    told, numbers, labels = (stored[name] for name in names)
    for listed, values, dtype in zip(
        json.loads(told.tobytes()), (numbers, labels), ("<f4", "u1"), strict=True
    ):
        if values.dtype != dtype or values.shape != (n_items, len(listed)):
            raise ValueError("features of another catalogue")
    if np.isinf(numbers).any() or (labels > 1).any() or not 1 <= numbers.shape[1] + labels.shape[1] <= 256:
        raise ValueError("features are numbers, NaN where unknown, and labels of 0 or 1")
    return numbers, labels


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
    signed, fetched, root, *, seen=None, earlier=lambda _: None, simulation=False, now=None, max_bytes=2**30
):
    """The board of a signed manifest, and the manifest [3 to 7.1].

    Args:
        signed: offered as the newest one.
        fetched: gives the bytes of a file.
        root: who must have signed and cosigned.
        seen: the newest signed manifest that was taken before, or None.
        earlier: gives a signed manifest of the mirror by its SHA-256, or None.
        simulation: whether simulations are taken.
        now: seconds since 1970; None for this machine's clock.
        max_bytes: the largest file and board that are taken.

    Raises:
        RefusedError: with the code.
    """
    manifest = opened(signed, root)
    require_cosigned(signed, root)
    require_current(manifest, now)
    seen = seen if seen is not None and counts(seen, root) else None
    require_place(signed, manifest, seen, earlier=earlier, simulation=simulation)
    file = manifest["file"]
    need(max(file["size"], file["board_size"]) <= max_bytes, "too-large")
    content = board_file(fetched(file), file)
    try:
        board = read_board(content)
        found, certificate = protection(board), board["certificate"]
        certified = manifest["board_digest"] if certificate is None else certificate.get("board_digest")
    except NOT_A_BOARD as error:
        raise RefusedError("wrong-digest") from error
    need(found == manifest["protection"] and certified == manifest["board_digest"], "not-as-stated")
    need(certificate is None or has_ledger(certificate, manifest), "ledger-changed")
    need(board["digest"] == manifest["board_digest"], "wrong-digest")
    return {**board, "manifest": manifest}


def counts(seen, root):
    """Whether what was seen counts: today's keys have signed it, or the pinned witnesses cosigned it [3.1]."""
    for require in (opened,) if root["witnesses"] is None else (require_cosigned, opened):
        try:
            require(seen, root)
        except RefusedError:
            continue
        return True
    return False


def has_ledger(certificate, manifest):
    """Whether a certificate states the ledger that was signed [7.1]."""
    stated = len(certificate["releases"]), certificate.get("ledger_head")
    return stated == (manifest["releases"], manifest["ledger_head"])
