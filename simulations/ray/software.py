"""What a node of a cluster runs, told by a function that needs nothing of fedboard: it is sent by value."""

from typing import Any


def software_here(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of Python and of these distributions, and the digest of fedboard's code; empty where one is missing.

    Args:
        packages: names of distributions.
    """
    import platform
    from importlib import metadata

    found = {"Python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    try:
        from fedboard.simulations.ray.carrying import code_digest

        found["fedboard's code"] = code_digest()
    except ImportError as error:
        found["fedboard's code"] = ""
        found["why"] = str(error)
    return found


def difference(node: str, here: dict[str, Any], there: dict[str, Any]) -> str | None:
    """What a node has other than here, one phrase; None where it has the same.

    Args:
        node: what it is called.
        here: as ``software_here`` gives it.
        there: the same, of the node.
    """
    for name, version in here.items():
        found = there.get(name, "")
        if found == version:
            continue
        if not found:
            return f"node {node} lacks {name}" + (f" ({there['why']})" if "why" in there else "")
        shown = (version[:12], found[:12])
        return f"node {node} has {name} {shown[1]}, and this process {shown[0]}"
    return None
