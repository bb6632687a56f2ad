"""``import fedboard``: every name is there, typed, looked up when it is used."""

import subprocess
import sys

import pytest

import fedboard


@pytest.mark.parametrize("name", [*fedboard.__all__, "__version__"])
def test_every_name_that_is_offered_is_there(name: str) -> None:
    assert getattr(fedboard, name) is not None
    assert name in dir(fedboard)


def test_what_is_not_offered_says_what_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'recomend'; it offers .*recommend"):
        _ = fedboard.recomend  # type: ignore[attr-defined]


def test_the_import_loads_no_library() -> None:
    """Counted in modules, not in seconds: nothing beyond the standard library comes with the name alone."""
    heavy = {"numpy", "scipy", "click", "msgspec", "cryptography", "fedboard.common"}
    code = f"import sys; import fedboard; print(sorted({heavy} & set(sys.modules)))"

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"
