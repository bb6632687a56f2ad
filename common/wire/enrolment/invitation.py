"""Invitations: the address of a fleet, what its introduction must hash to, and a secret that admits one device,
once.

A token is ``fb1-`` and the base64url text of 67 bytes: the SHA-256 of the server's introduction (its authority and
the keys that sign, see ``introduction``), 32 random bytes that are the secret, and the first three bytes of the
SHA-256 of both, which tell a token that was not copied whole. Whoever has the token knows by which keys to know
the server, so nothing is trusted because it came first; the server keeps the SHA-256 of the secret alone.
"""

import base64
import binascii
import hashlib
import os
from dataclasses import dataclass, field

from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import Address, parse_address

SECRET_BYTES = 32
_DIGEST_BYTES, _CHECK_BYTES = 32, 3
_PREFIX, _SCHEME = "fb1-", "https://"
_SECRET_DOMAIN = b"fedboard-invitation-1\0"
_AS_PRINTED = "it is one word of 94 characters that begins with fb1-, as `fedboard fleet invite` prints it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """What a device is given to join with. Secret: whoever has it joins in its place."""

    address: Address
    introduction: bytes
    """SHA-256 of the introduction that the server must hand over."""
    secret: bytes = field(repr=False)

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"{_SCHEME}{self.address.text}"

    @property
    def token(self) -> str:
        """The rest of it, as one word."""
        content = self.introduction + self.secret
        whole = content + hashlib.sha256(content).digest()[:_CHECK_BYTES]
        return _PREFIX + base64.urlsafe_b64encode(whole).rstrip(b"=").decode("ascii")

    @property
    def text(self) -> str:
        """Of a file with both: one line each."""
        return f"{self.url}\n{self.token}\n"

    @staticmethod
    def parse(url: str, token: str) -> "Invitation":
        """Read both parts as a person copied them.

        Raises:
            InputError: no address, or a token that is none or not whole. The message does not quote it.
        """
        if not url.startswith(_SCHEME):
            raise InputError(f"the URL of an invitation is {_SCHEME}HOST:PORT, got {url!r}")
        address = parse_address(url.removeprefix(_SCHEME).removesuffix("/"), name="the URL of an invitation")
        content = _content(token.strip())
        return Invitation(
            address=address, introduction=content[:_DIGEST_BYTES], secret=content[_DIGEST_BYTES:]
        )

    @staticmethod
    def parse_text(text: str, *, source: str) -> "Invitation":
        """Read the text of a file.

        Args:
            text: as ``text`` gives it.
            source: where it is from, for the message.

        Raises:
            InputError: it is no such file.
        """
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if len(lines) != 2:
            raise InputError(f"{source}: an invitation has two lines, the URL and the token")
        return Invitation.parse(*lines)


def _content(token: str) -> bytes:
    body = token.removeprefix(_PREFIX)
    try:
        whole = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        whole = b""
    content, check = whole[:-_CHECK_BYTES], whole[-_CHECK_BYTES:]
    right = len(content) == _DIGEST_BYTES + SECRET_BYTES and token.startswith(_PREFIX)
    if not right or hashlib.sha256(content).digest()[:_CHECK_BYTES] != check:
        raise InputError(f"this token is not whole, or is none; {_AS_PRINTED}")
    return content


def fresh_secret() -> bytes:
    """Of a new invitation, from the operating system's generator."""
    return os.urandom(SECRET_BYTES)


def digest_of_secret(secret: bytes) -> str:
    """What the server keeps of a secret: 256 random bits need no slow hash."""
    return hashlib.sha256(_SECRET_DOMAIN + secret).hexdigest()
