"""Making root documents: the first one, the next one, and signatures on them."""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.roots import (
    MOST_KEYS,
    ROOT,
    WITNESSES,
    Role,
    Root,
    SignedRoot,
    root_document,
    root_text,
)
from fedboard.common.boards.validity import DAY_SECONDS, Clock, utc_text
from fedboard.common.errors import InputError

USUAL_DAYS: Final = 365.0
"""How long a root is good unless it is said otherwise."""


def role_of(keys: Sequence[bytes], threshold: int, *, name: str) -> Role:
    """A role.

    Args:
        keys: public, 32 bytes each.
        threshold: how many of them must sign.
        name: of the role, for errors.

    Raises:
        InputError: no key, too many, one twice, or a threshold that they cannot reach.
    """
    if not 1 <= len(keys) <= MOST_KEYS or len(set(keys)) != len(keys):
        raise InputError(f"{name} must be 1 to {MOST_KEYS} different keys, got {len(keys)}")
    if not 1 <= threshold <= len(keys):
        raise InputError(f"the threshold of {name} must be in [1, {len(keys)}], got {threshold}")
    return Role(tuple(keys), threshold)


def drafted(
    roles: Mapping[str, Role | None], *, version: int, days: float, clock: Clock = time.time
) -> bytes:
    """A root document that nobody has signed yet.

    Args:
        roles: ``root`` (its holders, on machines that no server can reach) and ``boards``; ``questions``, where
            devices have not pinned the key of their questions by itself; and ``witnesses``, if it names any.
        version: one more than that of the root before.
        days: how long it is good; > 0.
        clock: of this machine.
    """
    named = {name: role for name, role in roles.items() if role is not None}
    expires = utc_text(clock() + days * DAY_SECONDS)
    return root_document(root_text(version=version, expires=expires, roles=named), {})


def signed_by(content: bytes, keys: Sequence[Ed25519PrivateKey], *, before: Root | None) -> bytes:
    """A root document with further signatures; those that are there stay.

    Args:
        content: the document.
        keys: of its holders, of those of the root before, or of the witnesses that one named.
        before: the root before; None where it is not at hand, or there is none.

    Raises:
        InputError: neither root names the key.
        RootError: it is no root document.
    """
    document = SignedRoot.from_bytes(content)
    asked = set(document.root.roles[ROOT].keys)
    if before is not None:  # who has pinned witnesses believes others only if these have signed
        asked |= {
            key for name in (ROOT, WITNESSES) if name in before.roles for key in before.roles[name].keys
        }
    signatures = dict(document.signatures)
    for key in keys:
        raw = key.public_key().public_bytes_raw()
        if raw not in asked and WITNESSES not in document.root.roles:  # readers may have pinned others
            raise InputError(
                f"version {document.root.version} of the root is not for this key to sign: neither it nor the one "
                "before, which must lie beside it, names the key as one of the root's holders or witnesses"
            )
        signatures[raw] = key.sign(document.message)
    return root_document(document.text, signatures)


def standing(content: bytes, *, before: Root | None) -> list[str]:
    """How many have signed a root and how many it takes, as sentences; empty where it counts.

    Raises:
        RootError: it is no root document.
    """
    document = SignedRoot.from_bytes(content)
    missing = list[str]()
    if before is None and document.root.version > 1:
        missing.append(
            f"the root of version {document.root.version - 1} is not beside it, and its holders were not counted"
        )
    for root in (before, document.root):
        if root is not None and not document.is_signed_by(root.roles[ROOT]):
            have, needed = len(document.signers(root.roles[ROOT])), root.roles[ROOT].threshold
            missing.append(f"{have} of {needed} holders of version {root.version} have signed")
    watching, next_ = (
        None if root is None else root.roles.get(WITNESSES) for root in (before, document.root)
    )
    if watching is not None and next_ is not None and not next_.is_same(watching):
        have = len(document.signers(watching))
        if have < watching.threshold:
            missing.append(f"{have} of {watching.threshold} witnesses of the version before have signed")
    return missing
