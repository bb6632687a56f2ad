"""Run ``fedboard simulate`` on a disk that is too small, make the disk larger, and go on.

Usage: full_disk_run.py FOLDER KIBIBYTES ARGUMENTS..., in a mount namespace of its own (``unshare -rm``), so that
the disk goes away with the process. Prints one JSON object.
"""

import json
import subprocess
import sys
from pathlib import Path

from killed_run import without_pictures

from fedboard.client.starting import start_quickly


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, __file__, "--inside", *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def inside(arguments: list[str]) -> None:
    start_quickly()
    if arguments[0] == "simulate":
        without_pictures()
    from fedboard.cli.main import commands

    commands.main(arguments)


def main(folder: Path, kibibytes: int, arguments: list[str]) -> None:
    from fedboard.server.publication import BoardStore

    out = folder / "run"
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)], check=True)
    first = run("simulate", *arguments, "--out", str(out))
    subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True)
    goes_on = [("--resume",), tuple(arguments)][not (out / "config.json").exists()]
    second = run("simulate", *goes_on, "--out", str(out))
    verified = run("certificate", "verify", str(out))[0]
    boards = BoardStore(out / "boards")
    digest = boards.latest().digest if second[0] == 0 else None
    print(json.dumps({"first": first, "second": second, "verified": verified, "digest": digest}))


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        inside(sys.argv[2:])
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
