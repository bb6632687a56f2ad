"""``fedboard keys holder, root, rotate, sign``: root documents, which say whose signatures readers take."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.keys.root_folder import RootFolder
    from fedboard.common.keys.roots import Role, Root

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
        click.option("--cosignatures", type=click.IntRange(min=1), help="How many witnesses must cosign."),
        click.option(
            "--days", type=_DAYS, default=365.0, show_default=True, help="How long the root is good."
        ),
        _SIGN,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(epilog="Example: fedboard keys holder alice --out alice")
@click.argument("name")
@click.option(
    "--out", "folder", type=_PATH, default=Path("keys"), show_default=True, help="Folder of the files."
)
def holder(name: str, folder: Path) -> None:
    """Make the key pair of the root holder NAME: NAME.key, kept offline, and NAME.pub for the others.

    Root holders sign who may sign: where it takes two of three, neither one lost nor one stolen key ends a run's
    name.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from fedboard.common.keys.ed25519_keys import write_pair
    from fedboard.server.fleet.plan.settings import NAME_RULE, is_name

    if not is_name(name):
        raise InputError(f"NAME must be {NAME_RULE}, got {name!r}; files elsewhere: --out FOLDER")
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    write_pair(Ed25519PrivateKey.generate(), private=private, public=public)
    click.echo(f"{private}: keep it offline; {public}: for keys root and keys rotate")


@click.command(
    epilog="Example: fedboard keys root roots --holder a.pub --holder b.pub --threshold 2 --board-key board.pub"
)
@click.argument("folder", metavar="ROOTS", type=_PATH)
@_terms
@click.option(
    "--instead-of",
    "former",
    metavar="KEY",
    type=_PATH,
    help="The private key that readers have pinned so far: they follow from it to this root.",
)
def root(folder: Path, former: Path | None, signers: tuple[Path, ...], days: float, **terms: Any) -> None:
    """Make the first root: a document that says who signs boards, and who may replace those keys.

    ROOTS is a folder, new or empty. The root counts when --threshold holders have signed it (--sign here, or keys
    sign where their keys are); then readers pin ROOTS/1.root.json in place of board-signing.pub. With --instead-of
    those who have pinned that key need not change anything: it becomes root 1, and the new root is number 2.
    """
    from fedboard.common.keys.root_folder import RootFolder
    from fedboard.server.operating.roots.drafting import Terms, drafted

    found = RootFolder(folder)
    if found.versions():
        raise InputError(f"{folder}: roots are there already; make the next one with: fedboard keys rotate")
    roles = _roles(terms, None)
    holders, boards = roles["holders"], roles["boards"]
    if holders is None or boards is None:
        raise InputError(
            "give --holder with --threshold, and --board-key: who signs roots, and who signs boards"
        )
    version = 1
    if former is not None:
        version = 2
        signers = (*signers, former)
        _write_first(found, former, days=days)
    said = Terms(holders=holders, boards=boards, questions=roles["questions"], witnesses=roles["witnesses"])
    _sign_and_write(found, version, drafted(said, version=version, days=days), signers)


@click.command(
    epilog="Example: fedboard keys rotate roots --board-key new.pub --sign alice.key --sign bob.key"
)
@click.argument("folder", metavar="ROOTS", type=_PATH)
@_terms
def rotate(folder: Path, signers: tuple[Path, ...], days: float, **terms: Any) -> None:
    """Make the next root: with other keys, or with the same ones and a later expiry.

    What is not given stays; a key that is left out signs nothing any more that readers take. The root counts when
    enough holders of the root before and of itself have signed it: with --sign here, or keys sign where their keys
    are. A server that has ROOTS as its board.roots publishes it then, and signs its boards again.
    """
    from fedboard.common.keys.root_folder import RootFolder
    from fedboard.server.operating.roots.drafting import Terms, drafted

    found = RootFolder(folder)
    chain = found.chain()
    if not chain:
        raise InputError(f"{folder}: no root there counts; make one with: fedboard keys root")
    if found.draft is not None:
        raise InputError(
            f"{found.path(found.draft)}: this draft waits for signatures (fedboard keys sign); delete it to begin "
            "anew"
        )
    newest = chain[-1]
    said = Terms.of(newest).changed(**_roles(terms, newest))
    version = newest.version + 1
    _sign_and_write(found, version, drafted(said, version=version, days=days), signers)


@click.command(epilog="Example: fedboard keys sign roots/2.root.json --key alice.key")
@click.argument("path", metavar="ROOT", type=_PATH)
@click.option("--key", "keys", type=_PATH, multiple=True, required=True, help="A holder's private key.")
def sign(path: Path, keys: tuple[Path, ...]) -> None:
    """Sign a root as one of its holders, or of those of the root before; or as a witness, where it names others.

    Readers who have pinned witnesses take other ones from a root only if enough of the pinned ones have signed it.

    ROOT is the file N.root.json, with the roots before it beside it, so that you see what changes. Read what is
    printed before you send the file on: it is what you have signed.
    """
    from fedboard.common.keys.root_folder import RootFolder
    from fedboard.common.keys.roots import WITNESSES

    version = path.name.partition(".")[0]
    if not path.name.endswith(".root.json") or not version.isdigit():
        raise InputError(f"{path}: give the file of a root, such as 2.root.json")
    folder = RootFolder(path.parent)
    done = [root for root in folder.chain() if root.version == int(version)]
    if done and WITNESSES not in done[0].roles:
        raise InputError(
            f"{path}: enough have signed this root already; once it is published it never changes"
        )
    _sign_and_write(folder, int(version), folder.content(int(version)), keys)


def _sign_and_write(folder: "RootFolder", version: int, content: bytes, signers: tuple[Path, ...]) -> None:
    from fedboard.common.files import write_atomically
    from fedboard.common.keys.ed25519_keys import read_private
    from fedboard.common.keys.roots import RootError
    from fedboard.server.operating.roots.drafting import before, signed_by, standing

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
    words = {ROOT: "roots", BOARDS: "boards", QUESTIONS: "questions", WITNESSES: "cosignatures"}
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
    from fedboard.server.operating.roots.drafting import role_of

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
    from fedboard.server.operating.roots.drafting import Terms, drafted, signed_by

    key = read_private(former, signed="boards")
    alone = Role((key.public_key().public_bytes_raw(),), 1)
    content = drafted(Terms(holders=alone, boards=alone), version=1, days=days)
    folder.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder.path(1), signed_by(content, [key], before=None))
