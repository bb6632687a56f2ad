"""What is promised about privacy, attacked and recomputed.

usage: python benchmarks/privacy.py accounting|stopping|floating-point [--json FILE] [--help]

``accounting``: claims recomputed at 60 digits, and the noise that exact accounting saves. ``stopping``: who stops
when the outcomes suit. ``floating-point``: what unrounded noise gives away. Each says in its ``--help`` what is
played; exit code 1 where a claim is exceeded. Who is in the data is played by ``fedboard audit``.
"""

import argparse
import json
from importlib import import_module
from pathlib import Path

PARTS = ("accounting", "stopping", "floating-point")


def main() -> None:
    """Run one; print and write what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="part", required=True)
    parts = {name: import_module(f"privacy_parts.{name.replace('-', '_')}") for name in PARTS}
    for name, part in parts.items():
        command = commands.add_parser(
            name, description=part.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_argument("--json", type=Path, metavar="FILE", help="the numbers")
        part.arguments(command)
    given = parser.parse_args()
    found = parts[given.part].run(given)
    print(json.dumps(found, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(not found.get("holds", True))


if __name__ == "__main__":
    main()
