"""Read the newest board of a mirror and recommend from it, without fedboard: the other files are all of it.

    python read.py MIRROR boards.pub my-ratings.csv [--simulation]

MIRROR is a folder, or the address of one (https://...). A root (1.root.json) will do in place of boards.pub.
my-ratings.csv has the header item,rating and names items by id.
"""

import csv
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

from boards import taken
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from manifests import RefusedError
from own_model import best
from promise import checked
from roots import LARGEST_ROOT, followed, of_file, of_key


def main(mirror, key_file, ratings_file, *options):
    """Fetch, check, recommend; 0, or 1 where the board is not taken."""

    def read(name, most):
        if mirror.startswith("https://"):
            with urllib.request.urlopen(f"{mirror.rstrip('/')}/{name}") as answer:
                return answer.read(most)
        return (Path(mirror) / name).read_bytes()[:most]

    def next_root(version):
        try:
            return read(f"roots/{version}.root.json", LARGEST_ROOT + 1)
        except (FileNotFoundError, urllib.error.HTTPError) as error:
            if getattr(error, "code", 404) != 404:
                raise
            return None  # the chain ends here

    pinned = Path(key_file).read_bytes()
    with open(ratings_file, newline="", encoding="utf-8-sig") as rows:
        ratings = {row["item"]: float(row.get("rating") or 1.0) for row in csv.DictReader(rows)}
    try:
        if pinned.lstrip().startswith(b"{"):
            root = of_file(pinned)
        else:
            root = of_key(load_pem_public_key(pinned).public_bytes_raw())
        root = followed(root, next_root)
        signed = json.loads(read("latest.json", 2**19))
        board = taken(
            signed,
            lambda file: read(f"files/{file['sha256']}", file["size"] + 1),
            root,
            simulation="--simulation" in options,
        )
        state = "open" if board["certificate"] is None else checked(board["certificate"])
    except RefusedError as refused:
        print(f"not taken: {refused}", file=sys.stderr)
        return 1
    claim = (board["certificate"] or {}).get("claim", {})
    print(f"board {board['version']} of {board['manifest']['run']}, noise: {board['manifest']['protection']}")
    print(f"epsilon {claim.get('epsilon')} at delta {claim.get('delta')}: {state}")
    titles = dict(zip(board["ids"], board["titles"] or board["ids"], strict=True))
    for item, score in best(board, ratings):
        print(f"{score:8.3f}  {titles[item]}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
