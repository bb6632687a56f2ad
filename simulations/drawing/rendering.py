"""Templates to text: one environment, everything escaped, nothing loaded from outside."""

from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fedboard.common.privacy.shown import shown_number
from fedboard.simulations.drawing.wording import capital, duration, number, percent, setting

_PACKAGE = "fedboard.simulations.drawing"


def render(template: str, **values: object) -> str:
    """Fill a template of this package. Values are escaped; only drawn SVG is taken as markup."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["percent"] = percent
    environment.filters["duration"] = duration
    environment.filters["setting"] = setting
    environment.filters["capital"] = capital
    environment.filters["upward"] = shown_number
    environment.globals["style"] = Markup(_read("style.css"))
    return environment


def _read(name: str) -> str:
    return resources.files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")
