"""Numbers of bytes as people read them."""

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def byte_text(number: float) -> str:
    """Three digits and a decimal unit."""
    for unit, name in _UNITS:
        if number >= unit:
            return f"{number / unit:,.3g} {name}"
    return f"{number:.0f} B"


__all__ = ["byte_text"]
