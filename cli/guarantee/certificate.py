"""``fedboard certificate``: what a board promises, and whether the numbers support it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from fedboard.cli.declaring import Commands, argument, command, option
from fedboard.cli.documents import JSON, answer, document
from fedboard.cli.exit_codes import ExitCode
from fedboard.cli.options import AUTHORITY, COSIGNATURES, WITNESS, witnesses_of
from fedboard.cli.text import aligned, bad
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.client.verification.evidence import Evidence, Verification
    from fedboard.common.certificate import Certificate, Finding

_LARGEST = 1 << 30
"""Bytes of a mirror's board: more than ten million items of rank 64 take."""


@click.group(cls=Commands)
def certificate() -> None:
    """Show or recompute the guarantee of a run, board, mirror or ledger."""


@command(
    "fedboard certificate show runs/demo",
    "fedboard certificate show runs/films --as label --out label.html",
    group=certificate,
)
def show(
    target: Path,
    form: Literal["text", "label", "registry"] = option(
        "label: a page in plain words. registry: a record for the registry of OpenDP and NIST, as YAML.",
        "--as",
        default="text",
    ),
    out: Path | None = option(
        "Of a label or a record: the file, replaced where it is there.  [default: stdout]"
    ),
    as_json: bool = JSON,
) -> ExitCode:
    """Print the certificate in TARGET: a run directory, a board file or a certificate.json.

    The first line says whether it is private at all, the next what is promised, mu before epsilon. Numbers are
    rounded up to five digits; --json has all of them. The exit code is 1 where they do not hold, and what was
    recomputed stands beside them. `fedboard certificate verify` looks at board and ledger too.

    A label says who is protected, against whom, the odds of a bet, what is not protected, for how long; then mu,
    epsilon and the rest for experts. It loads nothing and is legible in black and white. In a record what follows
    from the certificate is filled in; what only people can say is marked TO SAY. For both everything is verified
    first: one that does not hold gets none, and neither does a simulation, exit code 3.
    """
    from fedboard.client.verification.evidence import read_evidence
    from fedboard.common.certificate.record import DOES_NOT_HOLD

    evidence = read_evidence(target)
    if form != "text":
        if as_json:
            raise InputError("--json prints the certificate; leave out --as")
        _write(evidence, form, out)
        return ExitCode.DONE
    if out is not None:
        raise InputError("--out is for --as label and --as registry; the certificate is printed")
    held = evidence.certificate
    failed = [found for found in held.verify() if not found.passed] if held.verdict == DOES_NOT_HOLD else []
    document(held.to_dict()) if as_json else click.echo(_text(held, failed))
    return ExitCode.FAILED if failed else ExitCode.DONE


def _text(held: "Certificate", failed: "Sequence[Finding]") -> str:
    from fedboard.common.privacy.shown import shown_sentence

    rows = [
        (event.get("name"), event.get("covers"), f"{event.get('noise_multiplier', float('nan')):.4g}")
        for event in held.releases
    ]
    lines = [
        held.verdict,
        *(f"{bad('FAILED')}  {finding.check}: {finding.detail}" for finding in failed),
        f"\n{'It claims: ' if failed else ''}{held.promise[:1].upper()}{held.promise[1:]}.",
        *map(shown_sentence, held.statements),
        "\n" + aligned(("release", "what it covers", "noise multiplier"), rows),
        *("\nWho could see what:", *(f"- {sentence}" for sentence in held.trust)),
        *("\nTaken for granted:", *(f"- {sentence}" for sentence in held.assumptions)),
        f"\nData: {held.dataset}\nSoftware: {held.software}\nBoard digest: {held.board_digest}",
    ]
    return "\n".join(lines)


def _write(evidence: "Evidence", form: str, out: Path | None) -> None:
    from fedboard.client.verification.label import odds_of, verified_label
    from fedboard.client.verification.registry import registry_record
    from fedboard.common.files import write_atomically

    if form == "registry":
        text = registry_record(evidence)
        told = f"A draft for the registry of deployments: {out}; say what is marked TO SAY"
    else:
        text, told = verified_label(evidence), f"{odds_of(evidence.certificate).sentence}\n{out}"
    if out is None:
        click.echo(text, nl=False)
    else:
        write_atomically(out, text.encode("utf-8"))
        click.echo(told)


@command(
    "fedboard certificate verify runs/demo",
    "fedboard certificate verify members.ledger --head HASH",
    "fedboard certificate verify https://boards.example.org --key boards.pub",
    group=certificate,
)
def verify(
    target: str = argument("RUN|FILE|MIRROR"),
    heads: tuple[str, ...] = option(
        "A published head; must be in the ledger's chain.", "--head", metavar="HASH"
    ),
    key: Path | None = option(
        "Of a mirror: the public key that signs its boards, or the root that names it."
    ),
    witness: tuple[str, ...] = WITNESS,
    cosignatures: int | None = COSIGNATURES,
    authority: Path | None = AUTHORITY,
    simulation: bool = option("Accept noise that its seed reproduces: 0 where everything else holds."),
    with_passed: bool = option("Also list what passed.", "--all"),
    as_json: bool = JSON,
) -> ExitCode:
    """Recompute what was promised, wherever it stands.

    Of a certificate, every number of it: sensitivities, noise, composition, claim; of a board, that the
    certificate is its own; of a run directory, that the boards are a chain and that the ledger booked just these
    releases. Of any ledger (of a run, a device or a population), its hash chain, budget and plan. Of a mirror (an
    address or its folder, with --key), signatures, cosignatures, the chain of boards and every byte of every file.

    The exit code is 0 only if all of it holds and all noise is private. It is 1 if anything fails, or could not be
    looked at because a source was away, and 5 if all holds but noise follows from a seed, which is no guarantee to
    anybody.

    What no check of a ledger finds: rows cut off at the end, unless a published head is at hand (a board's
    certificate names one, --head gives one); an owner who rewrites the whole file and every head that was ever
    published; anything that was published without being booked.
    """
    from fedboard.client.page.boards import is_mirror
    from fedboard.client.verification.verification import verify_mirror, verify_place
    from fedboard.common.boards.board_signature import PinnedKey

    witnesses = witnesses_of(witness, cosignatures)
    if is_mirror(target):
        if key is None:
            raise InputError(
                f"{target}: boards of a mirror are signed; give --key, the public key that signs them"
            )
        if heads:
            raise InputError("--head is about a ledger, and a mirror has none")
        pinned = PinnedKey.read(key, witnesses=witnesses)
        verdict = verify_mirror(target, pinned, authority=authority, max_bytes=_LARGEST)
    elif key is not None or witnesses is not None:
        raise InputError(f"{target}: --key and --witness are about a mirror; there is none")
    else:
        verdict = verify_place(Path(target), heads)
    answer(_record(verdict, with_passed), _verdict(verdict, with_passed), as_json=as_json)
    if verdict.failed:
        return ExitCode.FAILED
    return ExitCode.NOT_PRIVATE if verdict.revealed and not simulation else ExitCode.DONE


def _record(verdict: "Verification", with_passed: bool) -> dict[str, Any]:
    from fedboard.client.verification.verification import LIMITS

    def told(passed: bool) -> list[dict[str, str]]:
        return [{"check": f.check, "detail": f.detail} for f in verdict.findings if f.passed is passed]

    record: dict[str, Any] = {
        "holds": verdict.holds,
        "private": verdict.private,
        "noise": verdict.protection.value,
        "checks": len(verdict.findings),
        "failed": told(False),
    }
    if with_passed:
        record["passed"] = told(True)
    if verdict.ledger is not None:
        record |= {"ledger": verdict.ledger, "limits": list(LIMITS)}
    return record


def _verdict(verdict: "Verification", with_passed: bool) -> str:
    from fedboard.client.verification.verification import LIMITS

    words = {True: "ok", False: bad("FAILED")}
    shown = [found for found in verdict.findings if with_passed or not found.passed]
    lines = [f"{words[found.passed]}  {found.check}: {found.detail}" for found in shown]
    n_checks, n_failed = len(verdict.findings), len(verdict.failed)
    if n_failed:
        lines.append(f"{n_failed} of {n_checks} checks failed: do not rely on {verdict.what}.")
    else:
        if verdict.ledger is not None and not with_passed:
            lines += [found.detail for found in verdict.findings if found.check in ("ledger", "budget")]
        lines += [f"All {n_checks} checks passed: {verdict.what}.", *verdict.notes]
        lines.append(f"{verdict.protection.verdict}.")
    if verdict.ledger is not None:
        lines += ["", "What this cannot show:", *(f"- {limit}" for limit in LIMITS)]
    return "\n".join(lines)
