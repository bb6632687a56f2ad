"""An invitation is two words that one can copy, and a word that was not copied whole is none."""

import base64

import pytest

from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import Address
from fedboard.common.messages.enrolment import (
    Introduction,
    Invitation,
    digest_of_introduction,
    digest_of_secret,
    fresh_secret,
)

INVITATION = Invitation(address=Address("fleet.example.org", 8443), introduction=b"i" * 32, secret=b"s" * 32)


def test_what_is_printed_is_read() -> None:
    assert Invitation.parse(INVITATION.url, INVITATION.token) == INVITATION
    assert Invitation.parse_text(INVITATION.text, source="a file") == INVITATION
    assert INVITATION.url == "https://fleet.example.org:8443"
    six = Invitation(address=Address("2001:db8::1", 8443), introduction=b"i" * 32, secret=b"s" * 32)
    assert Invitation.parse(six.url, six.token) == six
    assert "sss" not in repr(INVITATION)


@pytest.mark.parametrize(
    "token",
    [
        "",
        "fb1-",
        INVITATION.token[:-1],
        INVITATION.token[:20] + "A" + INVITATION.token[21:],
        INVITATION.token.removeprefix("fb1-"),
        INVITATION.token + "A",
        "fb1-" + base64.urlsafe_b64encode(bytes(67)).decode(),
        "fb1-ä",
    ],
)
def test_a_token_that_is_not_whole_is_refused_and_not_quoted(token: str) -> None:
    with pytest.raises(InputError, match="not whole, or is none") as refused:
        Invitation.parse(INVITATION.url, token)

    assert len(token) < 6 or token[4:] not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://a.example:1", "a.example:8443", "https://a.example", "https://a:1/x", ""]
)
def test_the_url_is_an_address_behind_https(url: str) -> None:
    with pytest.raises(InputError, match="URL of an invitation"):
        Invitation.parse(url, INVITATION.token)


def test_secrets_are_kept_as_digests_and_none_is_another() -> None:
    one, two = fresh_secret(), fresh_secret()

    assert len(one) == 32
    assert digest_of_secret(one) != digest_of_secret(two)
    assert one.hex() not in digest_of_secret(one)


def test_an_introduction_is_read_only_where_it_is_the_one_that_was_named() -> None:
    key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    held = Introduction(
        run="films",
        task="residual",
        protocol="trusted",
        epsilon=5.0,
        delta=1e-5,
        adjacency="add-remove",  # type: ignore[arg-type]
        authority="PEM",
        question_key=key,
    )
    content = held.to_bytes()

    opened = Introduction.open(content, digest=digest_of_introduction(content))
    assert (opened.run, opened.budget.epsilon) == ("films", 5.0)
    with pytest.raises(InputError, match="does not have the keys that this invitation names"):
        Introduction.open(content.replace(b"films", b"filmz"), digest=digest_of_introduction(content))
    for wrong in (b"{}", content.replace(b'"format":1', b'"format":2'), content.replace(key.encode(), b"00")):
        with pytest.raises(InputError):
            Introduction.open(wrong, digest=digest_of_introduction(wrong))
