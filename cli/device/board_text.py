"""What ``fedboard board`` prints of boards that were fetched or verified."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.style.documents import document
from fedboard.cli.text import aligned

if TYPE_CHECKING:
    from fedboard.client.boards.feed import Fetched
    from fedboard.client.boards.mirror_check import Found
    from fedboard.common.protection import Protection


def verdict(findings: "Sequence[Found]", *, with_passed: bool) -> str:
    """What passed if it is asked for, then what could not be checked, what failed, and how many."""
    words = {True: "ok", None: "not checked", False: "FAILED"}
    groups = {passed: [f for f in findings if f.passed is passed] for passed in words}
    shown = [f for passed, group in groups.items() if with_passed or not passed for f in group]
    table = aligned(("", "what", "found"), [(words[f.passed], f.check, f.detail) for f in shown])
    unchecked = f", {len(groups[None])} could not be checked" if groups[None] else ""
    summary = f"{len(groups[False])} of {len(findings)} failed{unchecked}"
    return f"{table}\n\n{summary}" if shown else summary


def record_of(findings: "Sequence[Found]", protection: "Protection") -> dict[str, Any]:
    """The same as a JSON-able object; ``private`` only where everything passed."""
    passed = all(finding.passed is True for finding in findings)
    return {
        "passed": passed,
        "private": passed and protection.value == "private",
        "noise": protection.value,
        "findings": [{"check": f.check, "passed": f.passed, "detail": f.detail} for f in findings],
    }


def tell(fetched: "Fetched", seconds: float | None, *, as_json: bool) -> None:
    """Print what was fetched; ``seconds`` is how long it took, where that is known."""
    manifest = fetched.manifest
    if as_json:
        document(_record(fetched, seconds))
        return
    how = f"{fetched.received} bytes" if fetched.received else "here already"
    click.echo(f"version {manifest.version} of {manifest.run}, published {manifest.published}: {how}")
    if manifest.protection.value != "private":
        click.echo(f"  {manifest.protection.verdict}")
    click.echo(f"  {fetched.path}")


def _record(fetched: "Fetched", seconds: float | None) -> dict[str, Any]:
    manifest = fetched.manifest
    return {
        "run": manifest.run,
        "version": manifest.version,
        "board_digest": manifest.board_digest,
        "private": manifest.protection.value == "private",
        "noise": manifest.protection.value,
        "published": manifest.published,
        "received_bytes": fetched.received,
        "seconds": seconds,
        "path": str(fetched.path),
    }
