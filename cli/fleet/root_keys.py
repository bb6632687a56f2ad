"""Root documents, which say whose signatures readers take: drafted, signed by holders, and said in lines."""

from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.common.boards.ed25519_keys import key_id, read_private, read_public
from fedboard.common.boards.roots import (
    BOARDS,
    QUESTIONS,
    ROOT,
    WITNESSES,
    Role,
    Root,
    RootError,
    RootFolder,
    SignedRoot,
)
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.server.operating.drafting import drafted, role_of, signed_by, standing

_ASKED = {
    "holders": (ROOT, "threshold"),
    "boards": (BOARDS, "board_threshold"),
    "questions": (QUESTIONS, None),
    "witnesses": (WITNESSES, "cosignatures"),
}
"""Options of ``keys rotate`` that name keys: whose, and the option that says how many of them must sign."""


def rotate_roots(
    place: Path, signers: tuple[Path, ...], *, former: Path | None, days: float, terms: dict[str, Any]
) -> None:
    """Draft the next root, or the first, sign it with what is at hand, and print what it says.

    Args:
        place: folder of the roots.
        signers: private keys of holders.
        former: of a first root: the private key that readers have pinned so far.
        days: how long the root is good.
        terms: what the options of ``keys rotate`` say of who signs what.

    Raises:
        InputError: a draft waits for signatures, or the options do not make a root.
    """
    folder = RootFolder(place)
    chain = folder.chain()
    if folder.draft is not None:
        raise InputError(
            f"{folder.path(folder.draft)}: this draft waits for signatures (fedboard keys sign); delete it to "
            "begin anew"
        )
    newest = chain[-1] if chain else None
    asked = {role: _role(word, terms, newest) for word, (role, _) in _ASKED.items()}
    roles = {role: named for role, named in asked.items() if named is not None}
    if newest is not None:
        if former is not None:
            raise InputError(f"{place}: roots are there already, so --instead-of is of no use; leave it out")
        roles, version = {**newest.roles, **roles}, newest.version + 1
    else:
        version = 1
        if not {ROOT, BOARDS} <= set(roles):
            raise InputError(
                f"{place}: for a first root give --holder with --threshold, and --board-key: who signs roots, and "
                "who signs boards"
            )
        if former is not None:  # root 1 of those who have pinned one key: it is all there is
            key, signers, version = read_private(former, signed="boards"), (*signers, former), 2
            alone = Role((key.public_key().public_bytes_raw(),), 1)
            content = drafted({ROOT: alone, BOARDS: alone}, version=1, days=days)
            folder.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder.path(1), signed_by(content, [key], before=None))
    _sign_and_write(folder, version, drafted(roles, version=version, days=days), signers)


def _role(word: str, terms: dict[str, Any], newest: Root | None) -> Role | None:
    """The role that the options name; None for one that stays as it is."""
    role, option = _ASKED[word]
    files, threshold = terms[word], None if option is None else terms[option]
    if not files and threshold is None:
        return None
    standing_role = None if newest is None else newest.roles.get(role)
    keys = [read_public(path, signed=word).public_bytes_raw() for path in files]
    if not keys and standing_role is not None:
        keys = list(standing_role.keys)
    if threshold is None and (len(keys) == 1 or option is None):
        threshold = 1
    elif threshold is None and standing_role is not None:
        threshold = standing_role.threshold
    if threshold is None:
        named = str(option).replace("_", "-")
        raise InputError(f"give --{named}: how many of the {len(keys)} keys must sign")
    return role_of(keys, threshold, name=f"the keys for {word}")


def sign_root(path: Path, keys: tuple[Path, ...]) -> None:
    """Add signatures to a root, and print what it says.

    Raises:
        InputError: it is no root, counts already, or is not for these keys to sign.
    """
    version = path.name.partition(".")[0]
    if not version.isdigit():
        raise InputError(f"{path}: give the file of a root, such as 2.root.json")
    folder, content = RootFolder(path.parent), RootFolder(path.parent).content(int(version))
    previous, counting = folder.before(int(version)), folder.chain()
    counts = [root for root in counting if root.version == int(version)]
    first_witnesses = (  # readers may have pinned others before a root named any
        counts and WITNESSES in counts[0].roles and (previous is None or WITNESSES not in previous.roles)
    )
    if counts and not first_witnesses and not standing(content, before=previous):
        raise InputError(
            f"{path}: enough have signed this root already; once it is published it never changes"
        )
    _sign_and_write(folder, int(version), content, keys)


def _sign_and_write(folder: RootFolder, version: int, content: bytes, signers: tuple[Path, ...]) -> None:
    try:
        previous = folder.before(version)
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
    root = SignedRoot.from_bytes(content).root
    words = {ROOT: "roots", BOARDS: "boards", QUESTIONS: "questions", WITNESSES: "witnesses"}
    lines = [f"version {root.version} of the root, good until {root.expires}"]
    for role, word in words.items():
        if role in root.roles:
            keys = root.roles[role].keys
            names = ", ".join(key_id(Ed25519PublicKey.from_public_bytes(key)) for key in keys)
            least = f"{root.roles[role].threshold} of " if len(keys) > 1 else ""
            lines.append(f"  {word}: {least}{names}")
    return lines


def roots_said(place: Path) -> list[str]:
    """What the newest root of a folder says, and its draft; nothing where there is none.

    Raises:
        InputError: the draft cannot be read.
    """
    folder = RootFolder(place)
    chain, draft = folder.chain(), folder.draft
    lines = said_of(chain[-1].content or b"") if chain else []
    if draft is not None:
        try:
            content = folder.content(draft)
            missing = standing(content, before=folder.before(draft))
            lines += ["draft, which does not count yet:", *said_of(content), f"  {'; '.join(missing)}"]
        except RootError as error:
            raise InputError(f"{folder.path(draft)}: {error}") from error
    return lines
