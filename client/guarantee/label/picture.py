"""A label as one SVG: text in lines of known width, so that it is legible wherever pictures are shown."""

from collections.abc import Iterable
from html import escape

from fedboard.client.guarantee.label.content import NOBODY, SIMULATION, Card, Label
from fedboard.client.guarantee.label.figures import TALL, WIDE, figures
from fedboard.client.guarantee.label.plain_text import wrapped

WIDTH, MARGIN = 380, 16
_INSIDE = WIDTH - 2 * MARGIN
_INK, _MUTED, _LINE, _RED = "#16181c", "#4c525b", "#8a919b", "#b3140a"
_BOLDER = 1.1
"""How much wider bold letters are."""
_STYLE = (
    "svg{background:#fff}text{font-family:system-ui,-apple-system,'Segoe UI',Arial,'DejaVu Sans',sans-serif}"
    f".coin{{fill:#fff;stroke:{_INK}}}.more{{fill:{_INK};stroke:{_INK}}}.wrong{{fill:#fff;stroke:#b4bac2}}"
)


class _Sheet:
    """What is drawn so far, from the top down."""

    def __init__(self) -> None:
        self.y = 0.0
        self.parts: list[str] = []

    def text(
        self, text: str, *, size: float = 14, bold: bool = False, colour: str = _INK, inset: float = 0
    ) -> None:
        """A paragraph."""
        room = (_INSIDE - inset) / size / (_BOLDER if bold else 1.0)
        for line in wrapped(text, room):
            self.y += size * 1.4
            weight = ' font-weight="700"' if bold else ""
            place = f'x="{MARGIN + inset:g}" y="{self.y:g}" font-size="{size:g}" fill="{colour}"'
            self.parts.append(f"<text {place}{weight}>{escape(line)}</text>")

    def gap(self, space: float) -> None:
        """Some space."""
        self.y += space

    def rule(self, width: float = 1, colour: str = _LINE) -> None:
        """A line across."""
        self.y += 10
        self.parts.append(
            f'<path d="M0 {self.y:g}h{WIDTH}" stroke="{colour}" stroke-width="{width:g}" fill="none"/>'
        )
        self.y += 2

    def band(self) -> None:
        """Red, and on paper a thick frame: what this is not."""
        top, before = self.y, len(self.parts)
        self.gap(4)
        self.text(SIMULATION.upper(), size=17, bold=True, colour="#fff")
        self.text(NOBODY, size=13, colour="#fff")
        self.gap(10)
        box = f'x="0" y="{top:g}" width="{WIDTH}" height="{self.y - top:g}"'
        self.parts.insert(before, f'<rect {box} fill="{_RED}" stroke="#000" stroke-width="3"/>')


def label_picture(label: Label) -> str:
    """The text of the file."""
    sheet = _Sheet()
    if label.simulation:
        sheet.band()
    _head(sheet, label)
    _odds(sheet, label)
    for card in label.cards:
        _card(sheet, card)
    _experts(sheet, label)
    if label.simulation:
        sheet.gap(8)
        sheet.band()
    height = sheet.y + (0 if label.simulation else 14)
    frame = f'x="1.5" y="1.5" width="{WIDTH - 3}" height="{height - 3:g}" rx="4" fill="none"'
    colour, thick = (_RED, 6) if label.simulation else (_INK, 3)
    marks = _watermarks(height) if label.simulation else ""
    title = ("SIMULATION: privacy label: " if label.simulation else "Privacy label: ") + label.name
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" lang="en" '
        f'aria-labelledby="label-title label-told" style="width:100%;max-width:{WIDTH + 100}px;height:auto">'
        f'<title id="label-title">{escape(title)}</title>'
        f'<desc id="label-told">{escape(" ".join(label.told()))}</desc>'
        f'<style>{_STYLE}</style><rect width="{WIDTH}" height="{height:g}" fill="#fff"/>{marks}'
        f'{"".join(sheet.parts)}<rect {frame} stroke="{colour}" stroke-width="{thick}"/></svg>\n'
    )


def _head(sheet: _Sheet, label: Label) -> None:
    sheet.gap(10)
    sheet.text("Privacy label", size=24, bold=True)
    sheet.text(label.name, size=15, bold=True)
    if label.publisher:
        sheet.text(f"Published by {label.publisher}, as they say", size=13, colour=_MUTED)
    sheet.rule(3, _INK)
    if not label.simulation:
        sheet.text(f"✓ {label.verdict}", bold=True)
        sheet.rule()


def _odds(sheet: _Sheet, label: Label) -> None:
    sheet.text(label.odds.heading, size=16, bold=True)
    sheet.gap(2)
    sheet.text(label.odds.sentence, size=17, bold=True, colour=_RED if label.simulation else _INK)
    sheet.gap(8)
    scale = _INSIDE / WIDE
    sheet.parts.append(
        f'<g transform="translate({MARGIN} {sheet.y:g}) scale({scale:g})">{figures(label.odds.hundred)}</g>'
    )
    sheet.gap(TALL * scale)
    key = "Of 100 bets: outlined, right by tossing a coin; filled, right at most beyond that; pale, wrong."
    sheet.text(key, size=12, colour=_MUTED)
    sheet.gap(4)
    sheet.text(f"{label.odds.coin} {label.odds.household}")
    sheet.rule()


def _card(sheet: _Sheet, card: Card) -> None:
    sheet.text(card.heading, size=16, bold=True)
    for line in card.lines:
        sheet.gap(5)
        if line.said:
            top = sheet.y + 4
            sheet.text("The publisher says:", size=13, bold=True, inset=10)
            sheet.text(line.text, inset=10)
            bar = f"M{MARGIN + 3} {top:g}V{sheet.y + 4:g}"
            sheet.parts.append(f'<path d="{bar}" stroke="{_LINE}" stroke-width="3" fill="none"/>')
        else:
            sheet.text(line.text)
    sheet.rule()


def _experts(sheet: _Sheet, label: Label) -> None:
    sheet.text("For those who know the field", size=16, bold=True)
    for name, value in label.facts:
        sheet.gap(3)
        sheet.text(f"{name}: {value}", size=12)
    sheet.gap(6)
    told = "Who could see what, and who must be trusted, in the words of the run:"
    sheet.text(told if label.trust else "The run does not say who could see what.", size=12, bold=True)
    for sentence in label.trust:
        sheet.gap(3)
        sheet.text(f"– {sentence}", size=12)
    sheet.gap(6)
    about = (
        "Every number was recomputed from the certificate: fedboard certificate verify RUN. What the publisher "
        "says, nobody recomputes; that the run did what its certificate says, no recomputation shows."
    )
    sheet.text(about, size=12, colour=_MUTED)


def _watermarks(height: float) -> str:
    """The word across the whole sheet, so that no piece of it can be cut out without it."""
    places: Iterable[int] = range(160, int(height), 210)
    return "".join(
        f'<text x="{WIDTH / 2:g}" y="{y}" font-size="58" font-weight="700" fill="{_RED}" fill-opacity="0.13" '
        f'text-anchor="middle" aria-hidden="true" transform="rotate(-24 {WIDTH / 2:g} {y})">SIMULATION</text>'
        for y in places
    )
