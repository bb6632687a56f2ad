"""``fedboard keys rotate`` and ``sign``: root documents, which say whose signatures readers take."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.keys.roots import Role, Root, RootFolder

_PATH = click.Path(path_type=Path)
_DAYS = click.FloatRange(min=0.01, max=3660)
_SIGN = click.option(
    "--sign",
    "signers",
    type=_PATH,
    multiple=True,
    help="A holder's private key to sign with here; others sign with keys sign.",
)


def _terms(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say who signs what."""
    options = (
        click.option("--holder", "holders", type=_PATH, multiple=True, help="Public key of a root holder."),
        click.option("--threshold", type=click.IntRange(min=1), help="How many holders must sign a root."),
        click.option(
            "--board-key", "boards", type=_PATH, multiple=True, help="Public key that signs boards."
        ),
        click.option("--board-threshold", type=click.IntRange(min=1), help="How many must sign a board."),
        click.option(
            "--question-key",
            "questions",
            type=_PATH,
            multiple=True,
            help="Public key that signs what devices are asked.",
        ),
        click.option(
            "--witness", "witnesses", type=_PATH, multiple=True, help="Public key of a witness of boards."
        ),
        click.option("--cosignatures", type=click.IntRange(min=1), help="How many of them must cosign."),
        click.option(
            "--days", type=_DAYS, default=365.0, show_default=True, help="How long the root is good."
        ),
        _SIGN,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Examples:
  fedboard keys rotate keys/roots --board-key new.pub --sign alice.key --sign bob.key
  fedboard keys rotate keys/roots --holder a.pub --holder b.pub --threshold 2 --sign keys/holder.key
"""
)
@click.argument("folder", metavar="ROOTS", type=_PATH)
@_terms
@click.option(
    "--instead-of",
    "former",
    metavar="KEY",
    type=_PATH,
    help="Of a first root: the private key that readers have pinned so far, who follow from it.",
)
def rotate(folder: Path, former: Path | None, signers: tuple[Path, ...], days: float, **terms: Any) -> None:
    """Make the next root, or the first: with other keys, or with the same ones and a later expiry.

    What is not given stays; a key that is left out is revoked: it signs nothing any more that readers take. The
    root counts when enough holders of the root before and of itself have signed it: with --sign here, or keys sign
    where their keys are. A server that has ROOTS in its keys folder publishes it then, and signs its boards again.
    """
    from fedboard.common.keys.roots import RootFolder
    from fedboard.server.operating.drafting import Terms, drafted

    found = RootFolder(folder)
    chain = found.chain()
    if found.draft is not None:
        raise InputError(
            f"{found.path(found.draft)}: this draft waits for signatures (fedboard keys sign); delete it to begin "
            "anew"
        )
    roles = _roles(terms, chain[-1] if chain else None)
    if chain:
        if former is not None:
            raise InputError(f"{folder}: roots are there already, so --instead-of is of no use; leave it out")
        said, version = Terms.of(chain[-1]).changed(**roles), chain[-1].version + 1
    else:
        holders, boards = roles.pop("holders"), roles.pop("boards")
        if holders is None or boards is None:
            raise InputError(
                f"{folder}: for a first root give --holder with --threshold, and --board-key: who signs roots, "
                "and who signs boards"
            )
        said, version = Terms(holders=holders, boards=boards, **roles), 1
        if former is not None:
            signers, version = (*signers, former), 2
            _write_first(found, former, days=days)
    _sign_and_write(found, version, drafted(said, version=version, days=days), signers)


def sign_root(path: Path, keys: tuple[Path, ...]) -> None:
    """Add signatures to a root, and print what it says.

    Raises:
        InputError: it is no root, counts already, or is not for these keys to sign.
    """
    from fedboard.common.keys.roots import WITNESSES, RootFolder
    from fedboard.server.operating.drafting import before, standing

    version = path.name.partition(".")[0]
    if not version.isdigit():
        raise InputError(f"{path}: give the file of a root, such as 2.root.json")
    folder, content = RootFolder(path.parent), RootFolder(path.parent).content(int(version))
    previous, counting = before(folder, int(version)), folder.chain()
    counts = [root for root in counting if root.version == int(version)]
    first_witnesses = (  # readers may have pinned others before a root named any
        counts and WITNESSES in counts[0].roles and (previous is None or WITNESSES not in previous.roles)
    )
    if counts and not first_witnesses and not standing(content, before=previous):
        raise InputError(
            f"{path}: enough have signed this root already; once it is published it never changes"
        )
    _sign_and_write(folder, int(version), content, keys)


def _sign_and_write(folder: "RootFolder", version: int, content: bytes, signers: tuple[Path, ...]) -> None:
    from fedboard.common.files import write_atomically
    from fedboard.common.keys.ed25519_keys import read_private
    from fedboard.common.keys.roots import RootError
    from fedboard.server.operating.drafting import before, signed_by, standing

    try:
        previous = before(folder, version)
        keys = [read_private(path, signed="roots") for path in signers]
        signed = signed_by(content, keys, before=previous)
        missing = standing(signed, before=previous)
    except RootError as error:
        raise InputError(f"{folder.path(version)}: {error}") from error
    folder.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.path(version), signed)
    for line in said_of(signed):
        click.echo(line)
    state = f"not complete: {'; '.join(missing)}; others sign it with keys sign" if missing else "complete"
    click.echo(f"{folder.path(version)}: {state}")


def said_of(content: bytes) -> list[str]:
    """What a root says, a line for each role."""
    from fedboard.common.keys.roots import BOARDS, QUESTIONS, ROOT, WITNESSES, SignedRoot

    root = SignedRoot.from_bytes(content).root
    words = {ROOT: "roots", BOARDS: "boards", QUESTIONS: "questions", WITNESSES: "witnesses"}
    lines = [f"version {root.version} of the root, good until {root.expires}"]
    lines += [f"  {word}: {_who(root.roles[role])}" for role, word in words.items() if role in root.roles]
    return lines


def _who(role: "Role") -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from fedboard.common.keys.ed25519_keys import key_id

    names = ", ".join(key_id(Ed25519PublicKey.from_public_bytes(key)) for key in role.keys)
    return f"{role.threshold} of {names}" if len(role.keys) > 1 else names


def _roles(terms: dict[str, Any], newest: "Root | None") -> "dict[str, Role | None]":
    """The roles that the options name; None for one that stays as it is."""
    from fedboard.common.keys.roots import BOARDS, QUESTIONS, ROOT, WITNESSES

    asked = {
        "holders": (ROOT, terms["holders"], terms["threshold"], "--threshold"),
        "boards": (BOARDS, terms["boards"], terms["board_threshold"], "--board-threshold"),
        "questions": (QUESTIONS, terms["questions"], None, ""),
        "witnesses": (WITNESSES, terms["witnesses"], terms["cosignatures"], "--cosignatures"),
    }
    return {name: _role(name, *given, newest) for name, given in asked.items()}


def _role(
    word: str, role: str, files: tuple[Path, ...], threshold: int | None, option: str, newest: "Root | None"
) -> "Role | None":
    from fedboard.common.keys.ed25519_keys import read_public
    from fedboard.server.operating.drafting import role_of

    before = None if newest is None else newest.roles.get(role)
    if not files and threshold is None:
        return None
    keys = [read_public(path, signed=word).public_bytes_raw() for path in files]
    if not keys and before is not None:
        keys = list(before.keys)
    if threshold is None:
        threshold = 1 if len(keys) == 1 or not option else None if before is None else before.threshold
    if threshold is None:
        raise InputError(f"give {option}: how many of the {len(keys)} keys must sign")
    return role_of(keys, threshold, name=f"the keys for {word}")


def _write_first(folder: "RootFolder", former: Path, *, days: float) -> None:
    """Root 1 of those who have pinned one key: it is all there is."""
    from fedboard.common.files import write_atomically
    from fedboard.common.keys.ed25519_keys import read_private
    from fedboard.common.keys.roots import Role
    from fedboard.server.operating.drafting import Terms, drafted, signed_by

    key = read_private(former, signed="boards")
    alone = Role((key.public_key().public_bytes_raw(),), 1)
    content = drafted(Terms(holders=alone, boards=alone), version=1, days=days)
    folder.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.path(1), signed_by(content, [key], before=None))
