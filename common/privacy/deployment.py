"""What only people can say of a deployment: who publishes, for what, what else is public, who sees it.

Part of a certificate from format 5 on (``Certificate.deployment``), under its digest, so that it cannot be changed
unseen. Nobody recomputes it: it is somebody's word, and shown as that. Its keys follow the record of the OpenDP and
NIST registry of deployments (``fedboard certificate registry``).
"""

import hashlib
import re
import tomllib
import unicodedata
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from fedboard.common.checks import sentence_of
from fedboard.common.errors import InputError, SettingError

SECTION = "deployment"
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
MOST_TEXT, MOST_NAME, MOST_NAMES = 2_000, 200, 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAMES = ("name", "region", "sector")
LISTS = ("curators", "authors")


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The texts. All are public; what is left out was not said."""

    name: str = ""
    """What the data product is called, such as "Film recommendations of the Example Library"."""
    curators: tuple[str, ...] = ()
    """Who publishes it: organisations or persons."""
    description: str = ""
    """What it is, in a sentence or two."""
    intended_use: str = ""
    """What it is for."""
    region: str = ""
    """Whom the data describes, or whose law applies: "Norway", "Global"."""
    sector: str = ""
    """One of ``SECTORS``, where one fits."""
    published: str = ""
    """Day on which the first board was published, YYYY-MM-DD."""
    unprotected: str = ""
    """What of the same people's data is published without noise, or by another promise; "Nothing" is an answer."""
    refresh: str = ""
    """How often it is trained anew on the same people, and when their budget begins anew, if ever."""
    data_source: Literal["", "static", "dynamic"] = ""
    """Whether ratings come in while it runs (dynamic) or are fixed (static)."""
    actors: str = ""
    """Who runs which server, who builds the devices' software, and why each is trusted with that."""
    access: str = ""
    """Who gets the boards."""
    post_processing: str = ""
    """What is done to the boards beyond what the algorithm does, before people see something of them."""
    preparation: str = ""
    """What was looked at before the run: how epsilon and the settings were chosen, and what that cost."""
    justification: str = ""
    """Why so: of this epsilon, this protocol, this unit; what was tested."""
    sources: str = ""
    """Where more is written."""
    notes: str = ""
    """Anything else."""
    authors: tuple[str, ...] = ()
    """Who answers for these statements."""

    def __post_init__(self) -> None:
        """Check sizes and signs.

        Raises:
            SettingError: names the key.
        """
        for key in self.__struct_fields__:
            value = getattr(self, key)
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str):
                    _require_text(key, text, in_list=isinstance(value, tuple))
        for key in LISTS:
            if len(getattr(self, key)) > MOST_NAMES:
                raise SettingError(f"{SECTION}.{key} lists at most {MOST_NAMES} names")
        if self.sector and self.sector not in SECTORS:
            raise SettingError(f"{SECTION}.sector must be one of {', '.join(SECTORS)}, got {self.sector!r}")
        if self.published and not _is_day(self.published):
            raise SettingError(f"{SECTION}.published must be a day as YYYY-MM-DD, got {self.published!r}")


class Deployment(Statement, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """As a certificate carries it."""

    audit: str = ""
    """SHA-256 of the audit's record that ``justification`` rests on: the JSON of ``fedboard audit --json``."""

    def __post_init__(self) -> None:
        """Check the digest too.

        Raises:
            SettingError: names the key.
        """
        Statement.__post_init__(self)
        if self.audit and not _DIGEST.fullmatch(self.audit):
            raise SettingError(
                f"{SECTION}.audit must be a SHA-256 in 64 hexadecimal digits, got {self.audit!r}"
            )


class DeploymentSection(Statement, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """As a file says it: the section ``[deployment]`` of ``fleet.toml``, or of a file of its own."""

    audit: Path | None = None
    """The audit's record: the JSON that ``fedboard audit --json FILE`` wrote. Its SHA-256 is stated."""

    def stated(self) -> Deployment:
        """With the digest in the place of the file.

        Raises:
            InputError: the file cannot be read, or is no audit's record.
        """
        texts = {key: getattr(self, key) for key in Statement.__struct_fields__}
        return Deployment(**texts, audit="" if self.audit is None else audit_digest(self.audit))


class _File(msgspec.Struct, frozen=True):
    """A file of which one section is read, so that sentences name it."""

    deployment: DeploymentSection


def read_deployment(path: Path) -> Deployment:
    """Read the section of a TOML file; its other sections are not looked at.

    Raises:
        InputError: no such file, no such section, an unknown key, a text that is too long.
    """
    try:
        section = tomllib.loads(path.read_text(encoding="utf-8")).get(SECTION)
        if section is None:
            raise InputError(f"{path}: has no section [{SECTION}]")
        folder = path.absolute().parent
        return msgspec.convert(
            {SECTION: section}, _File, dec_hook=lambda _, text: folder / str(text)
        ).deployment.stated()
    except OSError as error:
        raise InputError(f"{path}: no statement can be read there ({error.strerror})") from error
    except InputError:
        raise
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {sentence_of(error, _File)}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error


def _require_text(key: str, text: str, *, in_list: bool) -> None:
    most = MOST_NAME if in_list or key in _NAMES else MOST_TEXT
    lines = "" if in_list or key in _NAMES else "\n\t"
    if len(text) > most:
        raise SettingError(f"{SECTION}.{key} has at most {most} characters, got {len(text)}")
    if in_list and not text.strip():
        raise SettingError(f"{SECTION}.{key} has an empty name in it")
    if any(unicodedata.category(sign) in ("Cc", "Cs") and sign not in lines for sign in text):
        raise SettingError(f"{SECTION}.{key} has control characters in it")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def audit_digest(path: Path) -> str:
    """SHA-256 of an audit's record, after a look at whether it is one.

    Raises:
        InputError: it cannot be read, is none, or found a violation.
    """
    try:
        content = path.read_bytes()
        record = msgspec.json.decode(content)
    except OSError as error:
        raise InputError(f"{SECTION}.audit: {path}: cannot be read ({error.strerror})") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        record = None
    if not isinstance(record, dict) or not {"violated", "findings", "epsilon_claimed"} <= set(record):
        raise InputError(f"{SECTION}.audit: {path}: not the JSON that `fedboard audit --json` writes")
    if record["violated"] is not False or record.get("broken") is not None:
        raise InputError(
            f"{SECTION}.audit: {path}: an audit that found a violation, or that was of a run broken on purpose, "
            "justifies nothing"
        )
    return hashlib.sha256(content).hexdigest()
