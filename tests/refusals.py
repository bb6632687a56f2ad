"""What a message that is not taken says: a code, and nothing more."""

from collections.abc import Callable

import pytest

from fedboard.common.messages.refusals import Refusal, RefusedError


def refused(action: Callable[..., object], *arguments: object, **options: object) -> Refusal:
    """The code with which this is refused; the test fails where it is not, or where more is said."""
    with pytest.raises(RefusedError) as error:
        action(*arguments, **options)
    assert str(error.value) == error.value.code.value
    return error.value.code
