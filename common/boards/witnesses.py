"""Whom one believes that everybody sees the same boards: n witnesses, of whom k must have cosigned a manifest.

A witness cosigns a manifest only if it continues the last one of the run that it has cosigned. An operator who
shows two chains needs k cosignatures for each, and an honest witness signs one of them. Two sets of k share at
least 2 k - n witnesses, so 2 k - n - 1 of them may lie: of 2 out of 3 none, of 3 out of 4 one, of 5 out of 7 two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.ed25519_keys import has_signed, read_public
from fedboard.common.boards.manifest import Cosignature, SignedManifest
from fedboard.common.boards.roots import MOST_KEYS, Role
from fedboard.common.errors import InputError

_DOMAIN = b"fedboard-cosignature-1\0"
_KEY_BYTES = 32
MOST_COSIGNATURES = 2 * MOST_KEYS
"""Most cosignatures of a manifest that are looked at."""


@dataclass(frozen=True, slots=True)
class Witnesses(Role):
    """The role of those who cosign: the keys of n witnesses, and how many of them must have cosigned. Public.

    Guarantee: two manifests of one run that both have enough cosignatures are of one chain, as long as no more than
    ``bears`` of the witnesses lie, whatever the operator and the holders of the root do.
    """

    def __post_init__(self) -> None:
        """Check that k of n say anything.

        Raises:
            InputError: the same key twice, too many keys, or k is not more than half of n.
        """
        n = len(self.keys)
        if len(set(self.keys)) != n or not 1 <= n <= MOST_KEYS:
            raise InputError(f"witnesses must be 1 to {MOST_KEYS} different keys, got {n}")
        if not n < 2 * self.threshold <= 2 * n:
            raise InputError(
                f"cosignatures must be in [{n // 2 + 1}, {n}] for {n} witnesses, got {self.threshold}: with fewer "
                "than more than half of them two chains could be cosigned though nobody lies"
            )

    @classmethod
    def of(cls, named: Sequence[str], least: int | None, *, folder: Path = Path()) -> "Witnesses | None":
        """As a policy names them; None where it names none.

        Args:
            named: public keys of 64 hexadecimal digits, or PEM files that hold them.
            least: None for as many as more than half need.
            folder: to which paths are relative.

        Raises:
            InputError: one of them is no key, or k and n do not fit.
        """
        if not named:
            if least:
                raise InputError(
                    f"cosignatures must be 0 or left out where no witnesses are named, got {least}"
                )
            return None
        keys = tuple(_key(one, folder) for one in named)
        return cls(keys, len(keys) // 2 + 1 if least is None else least)

    @property
    def bears(self) -> int:
        """How many may lie."""
        return 2 * self.threshold - len(self.keys) - 1

    @property
    def sentence(self) -> str:
        """For people."""
        lying = f"{self.bears} of them may lie" if self.bears else "none of them may lie"
        return f"{self.threshold} of {len(self.keys)} witnesses must cosign; {lying}"

    def cosigners(self, signed: SignedManifest) -> list[bytes]:
        """Whose cosignatures a manifest has; a key counts once."""
        content, found = signed.content.encode(), []
        for key in self.keys:
            own = [one for one in signed.cosignatures[:MOST_COSIGNATURES] if one.key == key.hex()]
            if any(has_cosigned(one, content) for one in own):
                found.append(key)
        return found

    def missing(self, signed: SignedManifest) -> list[bytes]:
        """Whose cosignatures it has not."""
        there = set(self.cosigners(signed))
        return [key for key in self.keys if key not in there]

    def suffice(self, signed: SignedManifest) -> bool:
        """Whether enough of them have cosigned it."""
        return len(self.cosigners(signed)) >= self.threshold


def message_to_cosign(content: bytes) -> bytes:
    """A manifest's bytes behind the name of the format, so that no other signature passes for one."""
    return _DOMAIN + content


def cosigned(key: Ed25519PrivateKey, content: bytes) -> Cosignature:
    """The cosignature of a manifest's bytes. Whether it may be given, the rules of a witness say."""
    return Cosignature(
        key=key.public_key().public_bytes_raw().hex(), signature=key.sign(message_to_cosign(content)).hex()
    )


def has_cosigned(cosignature: Cosignature, content: bytes) -> bool:
    """Whether a cosignature is that of the key that it names."""
    try:
        key, signature = bytes.fromhex(cosignature.key), bytes.fromhex(cosignature.signature)
    except ValueError:
        return False
    return has_signed(key, signature, message_to_cosign(content))


def _key(named: str, folder: Path) -> bytes:
    digits = named.strip()
    if len(digits) == 2 * _KEY_BYTES and set(digits) <= set("0123456789abcdef"):
        return bytes.fromhex(digits)
    return read_public(folder / named, signed="manifests by witnesses").public_bytes_raw()
