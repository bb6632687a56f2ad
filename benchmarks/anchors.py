"""What a user sends under protocol two-server beside SecEmb (Mai et al., ICML 2025, arXiv 2505.12453).

usage: python benchmarks/anchors.py [--json FILE] [--users N]

Ours is measured: the messages and CPU seconds of ``benchmarks/two_servers.py``, for the payload of one gradient
a rated item (``lean``: d numbers and a weight). SecEmb is **computed** from the layout of its keys in its
authors' code (``src/fss.py``, ``src/protocol.py``): per item slot and server a seed of 128 bits, a correction
word of 130 bits for each level of the catalogue's binary tree, and a last one in the group, of one number for
retrieval and d for the upload, which goes along the same path; numbers are 61 bits, sent as 8 bytes. Its
downloads are d numbers for each slot and server. Sizes are the data sets' own; 50 slots are its code's default,
300 hold nine in ten users of ML-10M.
"""

import argparse
import json
import math
from pathlib import Path

from two_servers import measured

SIZES = {"ml-100k": 1682, "ml-1m": 3706, "ml-10m": 10_677, "ml-25m": 62_423}
SLOTS, RANK = (50, 300), 64
_SEED_BITS, _NUMBER_BYTES, _SERVERS = 128, 8, 2


def secemb_bytes(n_items: int, slots: int, rank: int) -> dict[str, int]:
    """Bytes of one user and round, by the layout of the keys alone: no headers, no encryption in transit."""
    levels = max(1, math.ceil(math.log2(n_items)))
    path = (_SEED_BITS + 1 + levels * (_SEED_BITS + 2) + 7) // 8
    retrieval = _SERVERS * slots * (path + _NUMBER_BYTES)
    upload = _SERVERS * slots * _NUMBER_BYTES * rank
    return {"up": retrieval + upload, "down": _SERVERS * slots * _NUMBER_BYTES * rank}


def line_of(name: str, n_items: int, slots: int, users: int) -> dict[str, object]:
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write all numbers there")
    parser.add_argument("--users", type=int, default=10, help="users to measure, per line [default: 10]")
    arguments = parser.parse_args()
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
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"lines": lines}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
