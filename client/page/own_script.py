"""The page's own modules, and which models they know."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable


def script_folder() -> Traversable:
    """Where the modules are."""
    return files(__package__).joinpath("script")


def known_tasks() -> tuple[str, ...]:
    """The tasks whose own models the page knows, as its registry lists them."""
    registry = script_folder().joinpath("models", "registry.js").read_text(encoding="utf-8")
    listed = registry.partition("export const MODELS = {")[2].partition("}")[0]
    return tuple(re.findall(r'^ {2}"?([\w-]+)"?: \w+,$', listed, re.MULTILINE))
