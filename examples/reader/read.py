"""Read the newest board of a mirror and recommend from it, without fedboard: the other files are all of it.

    python read.py MIRROR boards.pub my-ratings.csv [--simulation] [--seen FILE] [--witness KEY ...]

MIRROR is a folder, or the address of one (https://...). A root (1.root.json) will do in place of boards.pub.
my-ratings.csv has the header item,rating and names items by id. FILE keeps the newest manifest that was taken, so
that nothing older or other is taken after it. KEY is the public key of a witness, 64 digits: more than half of
those that are named must have cosigned the board.
"""

import argparse
import csv
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

from boards import taken
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from manifests import LARGEST_MANIFEST, RefusedError
from own_model import best
from promise import checked
from roots import LARGEST_ROOT, followed, of_file, of_key, of_witnesses


def main(mirror, key_file, ratings_file, *, seen_file, named, simulation):
    """Fetch, check, recommend; 0, or 1 where the board is not taken."""

    def read(name, most):
        if mirror.startswith("https://"):
            with urllib.request.urlopen(f"{mirror.rstrip('/')}/{name}") as answer:
                return answer.read(most)
        return (Path(mirror) / name).read_bytes()[:most]

    def read_if_there(name, most):
        try:
            return read(name, most)
        except (FileNotFoundError, urllib.error.HTTPError) as error:
            if getattr(error, "code", 404) != 404:
                raise
            return None

    def earlier(digest):
        content = read_if_there(f"manifests/{digest}.json", 2 * LARGEST_MANIFEST)
        return content and json.loads(content)

    witnesses = of_witnesses(named) if named else None
    seen = json.loads(seen_file.read_bytes()) if seen_file and seen_file.exists() else None
    pinned = Path(key_file).read_bytes()
    with open(ratings_file, newline="", encoding="utf-8-sig") as rows:
        ratings = {row["item"]: float(row.get("rating") or 1.0) for row in csv.DictReader(rows)}
    try:
        if pinned.lstrip().startswith(b"{"):
            root = of_file(pinned, witnesses)
        else:
            root = of_key(load_pem_public_key(pinned).public_bytes_raw(), witnesses)
        root = followed(root, lambda n: read_if_there(f"roots/{n}.root.json", LARGEST_ROOT + 1))
        signed = json.loads(read("latest.json", 2 * LARGEST_MANIFEST))
        board = taken(
            signed,
            lambda file: read(f"files/{file['sha256']}", file["size"] + 1),
            root,
            seen=seen,
            earlier=earlier,
            simulation=simulation,
        )
        state = "open" if board["certificate"] is None else checked(board["certificate"])
    except RefusedError as refused:
        print(f"not taken: {refused}", file=sys.stderr)
        return 1
    if seen_file:
        seen_file.write_text(json.dumps(signed))
    claim = (board["certificate"] or {}).get("claim", {})
    print(f"board {board['version']} of {board['manifest']['run']}, noise: {board['manifest']['protection']}")
    print(f"epsilon {claim.get('epsilon')} at delta {claim.get('delta')}: {state}")
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
