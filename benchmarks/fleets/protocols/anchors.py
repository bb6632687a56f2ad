"""What a user sends under protocol two-server beside SecEmb (Mai et al., ICML 2025, arXiv 2505.12453).

usage: python benchmarks/fleets/protocols/anchors.py [--json FILE] [--users N]

Ours is measured: the messages and CPU seconds of ``two_servers.py``, for the payload of one gradient
a rated item (``lean``: d numbers and a weight). SecEmb is **computed** from the layout of its keys in its
authors' code (``src/fss.py``, ``src/protocol.py``): per item slot and server a seed of 128 bits, a correction
word of 130 bits for each level of the catalogue's binary tree, and a last one in the group, of one number for
retrieval and d for the upload, which goes along the same path; numbers are 61 bits, sent as 8 bytes. Its
downloads are d numbers for each slot and server. Sizes are the data sets' own; 50 slots are its code's default,
300 hold nine in ten users of ML-10M.

A second table holds what its paper prints, megabytes that one user sends in a round of matrix factorisation (read
in a summary of it, en.papernotes.org), beside ours with as many slots as those megabytes hold by that layout.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from fleets.protocols.two_servers import asked, measured

SIZES = {"ml-100k": 1682, "ml-1m": 3706, "ml-10m": 10_677, "ml-25m": 62_423}
SLOTS, RANK = (50, 300), 64
PRINTED = {
    "ml-100k": (1682, 0.17),
    "ml-1m": (3883, 0.27),
    "ml-10m": (10_681, 0.28),
    "ml-25m": (62_423, 0.51),
    "yelp": (93_386, 0.52),
}
"""Items, and megabytes up that SecEmb's paper prints."""
_SEED_BITS, _NUMBER_BYTES, _SERVERS = 128, 8, 2


def secemb_bytes(n_items: int, slots: int, rank: int) -> dict[str, int]:
    """Bytes of one user and round, by the layout of the keys alone: no headers, no encryption in transit."""
    levels = max(1, math.ceil(math.log2(n_items)))
    path = (_SEED_BITS + 1 + levels * (_SEED_BITS + 2) + 7) // 8
    retrieval = _SERVERS * slots * (path + _NUMBER_BYTES)
    upload = _SERVERS * slots * _NUMBER_BYTES * rank
    return {"up": retrieval + upload, "down": _SERVERS * slots * _NUMBER_BYTES * rank}


def slots_within(n_items: int, megabytes: float) -> int:
    """How many items a user can update with as many bytes, by the layout of SecEmb's keys."""
    return round(megabytes * 1e6 / secemb_bytes(n_items, 1, RANK)["up"])


def line_of(name: str, n_items: int, slots: int, users: int) -> dict[str, Any]:
    ours = measured(n_items, RANK, "lean", slots, users=users)
    theirs = secemb_bytes(n_items, slots, RANK)
    dense = int(ours["bytes_dense"])
    return {
        "data": name,
        "items": n_items,
        "slots": slots,
        "rank": RANK,
        "dense_up": dense,
        "two_server_up": ours["bytes_up"],
        "two_server_client_ms": ours["client_ms"],
        "board_float32": 4 * RANK * n_items,
        "secemb_up": theirs["up"],
        "secemb_down": theirs["down"],
        "ratio_up": int(ours["bytes_up"]) / theirs["up"],
    }


def main() -> None:
    """Print what a user sends for the field's data sets, then for those that the paper has printed."""
    arguments = asked(__doc__, users=10)
    lines = []
    print(
        "data     items  slots | dense up  ours up  SecEmb up  ours/SecEmb | board  SecEmb down | device ms"
    )
    for name, n_items in SIZES.items():
        for slots in SLOTS:
            line = line_of(name, n_items, slots, arguments.users)
            lines.append(line)
            print(
                f"{name:8} {n_items:6d} {slots:5d} | {line['dense_up'] / 1e3:7.0f}k "
                f"{line['two_server_up'] / 1e3:7.1f}k {line['secemb_up'] / 1e3:9.1f}k {line['ratio_up']:12.2f} | "
                f"{line['board_float32'] / 1e3:6.0f}k {line['secemb_down'] / 1e3:10.0f}k | "
                f"{line['two_server_client_ms']:8.1f}",
                flush=True,
            )
    printed = []
    print("\ndata     items  slots | dense up  SecEmb printed  ours up  ours/SecEmb | device ms")
    for name, (n_items, megabytes) in PRINTED.items():
        line = line_of(name, n_items, slots_within(n_items, megabytes), arguments.users)
        line["secemb_printed_up"] = megabytes * 1e6
        line["ratio_up"] = line["two_server_up"] / line["secemb_printed_up"]
        printed.append(line)
        print(
            f"{name:8} {n_items:6d} {line['slots']:5d} | {line['dense_up'] / 1e6:7.2f}M {megabytes:14.2f}M "
            f"{line['two_server_up'] / 1e6:7.3f}M {line['ratio_up']:12.2f} | {line['two_server_client_ms']:8.1f}",
            flush=True,
        )
    if arguments.json is not None:
        found = {"lines": lines, "printed": printed}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
