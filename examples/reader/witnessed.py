"""Boards that witnesses have seen: the log of a mirror, held to a policy [3.4 of docs/reader-specification.md]."""

import base64
import hashlib
import re
from itertools import pairwise

from boards import canonical, sha256
from manifests import RefusedError, need, verifies

LARGEST_PROOF, LARGEST_NOTE, MOST_LINES = 2**23, 2**16, 64
LOG, WITNESS = 1, 4
NUMBER, SHA = "(0|[1-9][0-9]{0,9})", "([0-9a-f]{64})"
ENTRY = re.compile(
    rf"fedboard-board-log-1\nrun ([^\n]{{1,256}})\nversion {NUMBER}\nboard {SHA}\nmanifest {SHA}\n"
    rf"ledger {NUMBER} (-|[0-9a-f]{{64}})\nreleases {SHA}\n"
)


class Policy:
    """One log, its witnesses, and which of them suffice, from a text of c2sp.org/tlog-policy."""

    def __init__(self, text):
        self.witnesses, self.groups, self.log, self.quorum = {}, {}, None, None
        for line in text.splitlines():
            word, *rest = line.split() or ["#"]
            if word == "log":
                self.log = key_of(rest[0], LOG)
            elif word == "witness":
                self.witnesses[rest[0]] = key_of(rest[1], WITNESS)
            elif word == "group":
                least = {"all": len(rest) - 2, "any": 1}.get(rest[1]) or int(rest[1])
                self.groups[rest[0]] = (least, rest[2:])
            elif word == "quorum":
                self.quorum = rest[0]
            elif not word.startswith("#"):
                raise ValueError(f"not a line of a policy: {line}")

    def is_met(self, name, cosigned):
        """Whether a witness cosigned, or enough of a group did."""
        if name in self.witnesses:
            return name in cosigned
        least, members = self.groups[name]
        return sum(self.is_met(member, cosigned) for member in members) >= least


def key_of(text, kind):
    """Name, id and 32 bytes of ``name+id+base64``."""
    name, stated, content = text.split("+", 2)
    raw = exact_base64(content)
    if (
        raw[0] != kind
        or len(raw) != 33
        or hashlib.sha256(name.encode() + b"\n" + raw).hexdigest()[:8] != stated
    ):
        raise ValueError("another kind of key, or another id")
    return name, bytes.fromhex(stated), raw[1:]


def exact_base64(text):
    """Bytes of base64 in its one form."""
    content = base64.b64decode(text, validate=True)
    if base64.b64encode(content).decode() != text:
        raise ValueError("base64 in another form")
    return content


def logged(proof, policy, *, manifest, content, seen=None):
    """The entries of a log that shows a manifest to enough witnesses.

    Args:
        proof: ``log.tlog-proof`` as it came.
        policy: whose witnesses count.
        manifest: verified.
        content: its text as it was signed.
        seen: the proof that was taken before, or None.

    Raises:
        RefusedError: with the code.
    """
    entries, note = sound(proof, policy)
    if seen is not None:
        before, _ = sound(seen, policy)
        shorter = min(len(before), len(entries))
        need(before[:shorter] == entries[:shorter], "split-view")
        need(len(entries) >= len(before), "rollback")
    need(policy.is_met(policy.quorum, cosigners(note, policy)), "not-witnessed")
    first = next((entry for entry in entries if entry["version"] == manifest["version"]), None)
    need(first is None or first["board"] == manifest["board_digest"], "split-view")
    found = next((entry for entry in entries if entry["manifest"] == sha256(content.encode())), None)
    need(found is not None, "not-witnessed")
    told = (manifest["run"], manifest["version"], manifest["board_digest"])
    need((found["run"], found["version"], found["board"]) == told, "split-view")
    return entries


def sound(proof, policy):
    """Entries and note of a proof that its log has signed."""
    try:
        head, note = parts_of(proof)
        entries = entries_of(plain(exact_base64(head[1].removeprefix("extra "))))
    except ValueError as error:
        raise RefusedError("not-witnessed") from error
    require_rules(entries)
    try:
        require_checkpoint(entries, head, note, policy)
    except (ValueError, IndexError) as error:
        raise RefusedError("not-witnessed") from error
    return entries, note


def parts_of(proof):
    """The lines before the note, and the note as text and lines of signatures: name, id, rest."""
    head, between, note = plain(proof).partition("\n\n")
    lines = head.split("\n")
    text, gap, signed = note.rpartition("\n\n")
    starts = len(lines) > 2 and lines[1].startswith("extra ") and lines[2].startswith("index ")
    small = len(proof) <= LARGEST_PROOF and len(note.encode()) <= LARGEST_NOTE
    if not (between and gap and text and small and starts and lines[0] == "c2sp.org/tlog-proof@v1"):
        raise ValueError("not a proof of a log")
    found = []
    for line in signed.removesuffix("\n").split("\n"):
        dash, name, content = line.split(" ")
        raw = exact_base64(content)
        if dash != "\N{EM DASH}" or not signed.endswith("\n") or len(raw) <= 4:
            raise ValueError("not a line of a signature")
        found.append((name, raw[:4], raw[4:]))
    if len(found) > MOST_LINES:
        raise ValueError("too many signatures")
    return lines, (f"{text}\n", found)


def plain(content):
    """UTF-8 without control characters but line feeds."""
    text = content.decode()
    if re.search("[\x00-\x09\x0b-\x1f]", text):
        raise ValueError("control characters")
    return text


def entries_of(text):
    """What the log said, entry by entry."""
    *texts, rest = text.split("\n\n")
    found = [ENTRY.fullmatch(f"{one}\n") for one in texts]
    if rest or not all(found):
        raise ValueError("not entries of a log of boards")
    names = ("run", "version", "board", "manifest", "rows", "head", "releases")
    return [
        {
            **dict(zip(names, one.groups(), strict=True)),
            "version": int(one[2]),
            "rows": int(one[5]),
            "text": one[0],
        }
        for one in found
    ]


def require_rules(entries):
    """One run, one board for a version, one ledger that only grows."""
    first = {}
    for entry in entries:
        known = first.setdefault(entry["version"], entry)
        same = all(known[name] == entry[name] for name in ("run", "board", "rows", "head", "releases"))
        need(same and entry["run"] == entries[0]["run"], "split-view")
    ordered = [first[version] for version in sorted(first)]
    for before, after in pairwise(ordered):
        need(before["rows"] <= after["rows"], "split-view")
        same = (before["head"], before["releases"]) == (after["head"], after["releases"])
        need(same or before["rows"] < after["rows"], "split-view")


def require_checkpoint(entries, head, note, policy):
    """The log signed just these entries; raises ``ValueError`` where it did not."""
    origin, size, root, *_ = note[0].split("\n")
    leaves = [hashlib.sha256(b"\0" + entry["text"].encode()).digest() for entry in entries]
    index, path = int(head[2].removeprefix("index ")), [exact_base64(line) for line in head[3:]]
    name, key_id, key = policy.log
    lines = [rest for one, its_id, rest in note[1] if (one, its_id) == (name, key_id)]
    holds = (
        origin == name
        and str(len(leaves)) == size
        and exact_base64(root) == root_of(leaves)
        and path == path_of(leaves, index)
        and lines
        and all(verifies(key, rest, note[0].encode()) for rest in lines)
    )
    if not holds:
        raise ValueError("not what this log signed")


def root_of(leaves):
    """The root of a Merkle tree of RFC 6962."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + root_of(leaves[:k]) + root_of(leaves[k:])).digest()


def path_of(leaves, index):
    """What leads from a leaf to the root."""
    if not 0 <= index < len(leaves):
        raise ValueError("an index beyond the log")
    if len(leaves) == 1:
        return []
    k = 1 << (len(leaves) - 1).bit_length() - 1
    if index < k:
        return [*path_of(leaves[:k], index), root_of(leaves[k:])]
    return [*path_of(leaves[k:], index - k), root_of(leaves[:k])]


def cosigners(note, policy):
    """The witnesses, by their names in the policy, who cosigned; a wrong word of one of them is refused."""
    text, lines = note
    found = set()
    for called, (name, key_id, key) in policy.witnesses.items():
        for rest in (rest for one, its_id, rest in lines if (one, its_id) == (name, key_id)):
            seconds = int.from_bytes(rest[:8], "big")
            message = f"cosignature/v1\ntime {seconds}\n{text}".encode()
            need(0 < seconds < 2**63 and verifies(key, rest[8:], message), "not-witnessed")
            found.add(called)
    return found


def require_ledger(entries, board):
    """The ledger of a board's certificate continues that of every board before."""
    certificate = board["certificate"] or {}
    releases, head = certificate.get("releases", []), certificate.get("ledger_head") or "-"
    first = {}
    for entry in entries:
        first.setdefault(entry["version"], entry)
    own = first.get(board["version"])
    need(own is not None and (own["rows"], own["head"]) == (len(releases), head), "ledger-changed")
    for entry in first.values():
        if entry["version"] <= board["version"]:
            digest = sha256(canonical(releases[: entry["rows"]], ascii_only=True))
            need(digest == entry["releases"], "ledger-changed")
