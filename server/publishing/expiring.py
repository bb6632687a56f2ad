"""What expires of a server, and when: so that nobody finds out from devices that refuse."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.layout import LATEST, ROOTS
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.roots import RootFolder
from fedboard.common.boards.roster import Roster
from fedboard.common.boards.validity import DAY_SECONDS, utc_seconds
from fedboard.common.errors import FedboardError

SOON_DAYS: Final = 30.0
"""What expires within so many days is told as a problem."""
_SOON_SHARE: Final = 0.25
"""Of a manifest, which is renewed when half of its time is over: when so much of it is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """Something that expires. Public."""

    what: str
    place: str
    at: float
    """Seconds since 1970 UTC."""
    remedy: str = ""
    soon_days: float = SOON_DAYS
    """It is time to do something when so many days are left."""

    def days(self, now: float) -> float:
        """That are left; below zero where it is over."""
        return (self.at - now) / DAY_SECONDS

    def is_soon(self, now: float) -> bool:
        """Whether it is time to do something."""
        return self.days(now) < self.soon_days

    def sentence(self, now: float) -> str:
        """For people."""
        days = self.days(now)
        ends = f"ends in {days:.1f} days" if days > 0 else f"ended {-days:.1f} days ago"
        day = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d")
        return f"{self.what} ({self.place}) {ends} ({day})" + (f"; {self.remedy}" if self.remedy else "")


def certificate_expiry(path: Path, *, what: str = "the certificate", remedy: str) -> Expiry | None:
    """When the last of the TLS certificates in a PEM file ends; None where there is none."""
    try:
        held = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        return None
    at = max(one.not_valid_after_utc for one in held).timestamp()
    return Expiry(what=what, place=str(path), at=at, remedy=remedy)


def root_expiry(folder: Path, *, what: str = "") -> Expiry | None:
    """When the newest root in a folder ends; None where there is none that counts."""
    try:
        chain = RootFolder(folder).chain()
    except FedboardError:
        return None
    if not chain or chain[-1].expires is None:
        return None
    return Expiry(
        what=what or f"version {chain[-1].version} of the root",
        place=str(folder),
        at=utc_seconds(chain[-1].expires),
        remedy="its holders sign the next one: fedboard keys rotate",
    )


def roster_expiry(path: Path, *, authority: str) -> Expiry | None:
    """When a signed list of devices ends; None where there is none that counts.

    Args:
        path: of the list.
        authority: public key of who signs it, 64 hexadecimal digits.
    """
    try:
        roster = Roster.load(path, authority=bytes.fromhex(authority))
    except (FedboardError, ValueError):
        return None
    return Expiry(
        what="the list of devices",
        place=str(path),
        at=float(roster.until),
        remedy="no device takes it afterwards; sign the next one: fedboard keys sign",
    )


def manifest_expiry(mirror: Path, *, remedy: str = "sign it again: fedboard keys renew") -> Expiry | None:
    """When the newest manifest of a mirror ends, whose signature is not looked at; None where there is none."""
    try:
        signed = SignedManifest.from_bytes((mirror / LATEST).read_bytes())
        manifest = Manifest.from_bytes(signed.content.encode())
    except (OSError, FedboardError):
        return None
    if manifest.expires is None or manifest.signed is None:
        return None
    at = utc_seconds(manifest.expires)
    life = (at - utc_seconds(manifest.signed)) / DAY_SECONDS
    return Expiry(
        what="the signature on the newest board",
        place=str(mirror / LATEST),
        at=at,
        remedy=remedy,
        soon_days=_SOON_SHARE * life,
    )


def mirror_expiries(mirror: Path) -> list[Expiry]:
    """Of a mirror: its newest root and its newest manifest."""
    found = (root_expiry(mirror / ROOTS), manifest_expiry(mirror))
    return [one for one in found if one is not None]
