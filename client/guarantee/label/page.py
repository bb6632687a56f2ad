"""A label as one HTML file: no script, nothing that is fetched, all text of others escaped and kept to itself."""

from html import escape
from importlib.resources import files

from fedboard.client.guarantee.label.content import NOBODY, SIMULATION, Card, Label, Line
from fedboard.client.guarantee.label.figures import TALL, WIDE, figures
from fedboard.common.wire.pages.filling import filled, source_hash


def label_page(label: Label) -> str:
    """The text of the file."""
    style = _text("label.css")
    publisher = f'<p class="publisher">Published by <bdi>{escape(label.publisher)}</bdi>, as they say</p>\n'
    slots = {
        "policy": f"default-src 'none'; style-src '{source_hash(style)}'; base-uri 'none'; form-action 'none'",
        "title": escape(f"{'SIMULATION: ' if label.simulation else ''}privacy label: {label.name}"),
        "style": style,
        "kind": "simulation" if label.simulation else "private",
        "band": _band() if label.simulation else "",
        "name": escape(label.name),
        "publisher": publisher if label.publisher else "",
        "verdict": "" if label.simulation else f'<p class="verdict">{escape(label.verdict)}</p>\n',
        "odds_heading": escape(label.odds.heading),
        "odds": escape(label.odds.sentence),
        "coin": escape(label.odds.coin),
        "household": escape(label.odds.household),
        "figures": _figures(label),
        "cards": "".join(map(_card, label.cards)),
        "facts": "".join(
            f"<dt>{escape(name)}</dt><dd><bdi>{escape(value)}</bdi></dd>\n" for name, value in label.facts
        ),
        "trust": _trust(label),
        "about": "Made from the certificate of the run, every number of which was recomputed.",
    }
    return filled(_text("label.html"), slots)


def _band() -> str:
    return f'<p class="band">{escape(SIMULATION.upper())}<span>{escape(NOBODY)}</span></p>\n'


def _figures(label: Label) -> str:
    told = escape(f"{label.odds.hundred} of 100 bets right, at most; 50 by tossing a coin")
    return (
        f'<svg viewBox="0 0 {WIDE} {TALL}" role="img" aria-label="{told}">{figures(label.odds.hundred)}</svg>'
    )


def _card(card: Card) -> str:
    lines = "".join(map(_line, card.lines))
    return f"<section>\n<h2>{escape(card.heading)}</h2>\n{lines}</section>\n"


def _line(line: Line) -> str:
    text = escape(line.text)
    return (
        f'<p class="said"><b>The publisher says:</b> <bdi>{text}</bdi></p>\n'
        if line.said
        else f"<p>{text}</p>\n"
    )


def _trust(label: Label) -> str:
    if not label.trust:
        return "<p>The run does not say who could see what.</p>\n"
    told = "".join(f"<li><bdi>{escape(sentence)}</bdi></li>\n" for sentence in label.trust)
    return (
        f"<p>Who could see what, and who must be trusted, in the words of the run:</p>\n<ul>\n{told}</ul>\n"
    )


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
