"""Draw the two pictures of the first page: ``docs/way.svg`` and ``docs/accuracy-curve.svg``.

usage: python docs/draw_first_page.py           # writes both
       python docs/draw_first_page.py --check   # exit code 1 if one is not what would be written

The curve shows rows of the table in ``docs/guide/accuracy.md``, so it says what the table says. Both follow the
scheme of the page they stand on, light or dark, and without one that of the reader's system.
"""

import argparse
import math
import re
import sys
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
TABLE = DOCS / "guide" / "accuracy.md"
LIGHT = "--ink:#1c2430;--soft:#5b6675;--box:#f4f6f9;--line:#b9c3d0;--own:#1d6fb8;--all:#b4501f;--flat:#fff"
DARK = "--ink:#e6eaf0;--soft:#a3adba;--box:#1b2230;--line:#4a5566;--own:#6db3f2;--all:#f09a6a;--flat:#0f131a"
STYLE = (
    f".drawn{{{LIGHT};font:15px system-ui,sans-serif;max-width:100%;height:auto}}"
    f"@media(prefers-color-scheme:dark){{.drawn{{{DARK}}}}}"
    f"[data-md-color-scheme=default] .drawn{{{LIGHT}}}[data-md-color-scheme=slate] .drawn{{{DARK}}}"
    ".drawn text{fill:var(--ink)}.drawn .name{font-weight:600;font-size:16px}"
    ".drawn .soft{fill:var(--soft);font-size:13px}"
    ".drawn .own{stroke:var(--own)}.drawn .all{stroke:var(--all)}.drawn .room{fill:var(--box);stroke-width:1.5}"
    ".drawn .arrow{stroke:var(--soft);stroke-width:2;fill:none;marker-end:url(#tip)}.drawn .tip{fill:var(--soft)}"
    ".drawn .grid{stroke:var(--line);stroke-width:1}.drawn .curve{fill:none;stroke-width:2.5}"
    ".drawn .of-own{fill:var(--own)}.drawn .of-all{fill:var(--all)}"
    ".drawn .plain{stroke:var(--soft);stroke-dasharray:5 4}"
)
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def text(x: float, y: float, told: str, kind: str = "", anchor: str = "middle") -> str:
    """A line of words."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(told)}</text>'


def picture(width: int, height: int, label: str, drawn: Iterable[str]) -> str:
    """A whole file."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="drawn" viewBox="0 0 {width} {height}" role="img"'
    return "\n".join(
        [f'{head} aria-label="{escape(label)}">', f"<style>{STYLE}</style>", *drawn, "</svg>", ""]
    )


def room(x: float, y: float, kind: str, name: str, *lines: str) -> list[str]:
    """A box with a name and what it holds."""
    box = f'<rect x="{x:g}" y="{y:g}" width="172" height="86" rx="8" class="room {kind}"/>'
    told = [text(x + 86, y + 46 + 18 * number, line, "soft") for number, line in enumerate(lines)]
    return [box, text(x + 86, y + 25, name, "name"), *told]


def way() -> str:
    """Return the way of a rating in six boxes; the red ones are public."""
    left, right, top, middle, bottom = 34, 234, 30, 160, 290
    drawn = [
        TIP,
        text(left, 18, "private", "of-own", "start"),
        *room(left, top, "own", "Your device", "your ratings stay here;", "it has a limit of its own"),
        *room(right, top, "own", "A contribution", "clipped and weighted,", "in integers"),
        *room(right, middle, "own", "One exact sum", "over all users;", "who adds is a choice"),
        *room(left, middle, "all", "Noise", "booked in a ledger first,", "or nothing goes further"),
        *room(left, bottom, "all", "The board", "item statistics alone,", "with a certificate"),
        *room(right, bottom, "own", "Your list", "board + own ratings,", "on your own device"),
        text(left, bottom + 106, "public from the noise on", "of-all", "start"),
        text(left - 14, bottom - 17, "next round", "soft", "start"),
    ]
    arrows = [
        f"M{left + 172} {top + 43}H{right - 3}",
        f"M{right + 86} {top + 86}V{middle - 3}",
        f"M{right} {middle + 43}H{left + 175}",
        f"M{left + 86} {middle + 86}V{bottom - 3}",
        f"M{left + 172} {bottom + 43}H{right - 3}",
        f"M{left} {bottom + 43}H{left - 22}V{top + 43}H{left - 3}",
    ]
    drawn += [f'<path class="arrow" d="{path}"/>' for path in arrows]
    return picture(410, 404, "The way of a rating: device, contribution, sum, noise, board, list", drawn)


def measured(name: str) -> tuple[list[float], dict[str, list[float]]]:
    """The epsilons of the first table in the page, and its rows about one data set.

    Args:
        name: of the set, as the table calls it.
    """
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| test RMSE | epsilon"))
    epsilons = [float(cell) for cell in re.findall(r"[\d.]+", lines[head].replace("no privacy", ""))]
    rows = {}
    first = next(number for number in range(head, len(lines)) if lines[number].startswith(f"| {name}:"))
    for line in lines[first : first + 3]:
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        rows[cells[0].split(":")[-1].strip(" `")] = [float(cell) for cell in cells[1:] if cell]
    return epsilons, rows


def curve() -> str:
    """Test error against epsilon on MovieLens 1M: ours, AdaDPALS, the best private baseline, and no privacy."""
    epsilons, rows = measured("ml-1m")
    *ours, without = rows["residual"]
    low, high, left, right, top, bottom = 0.82, 1.04, 62, 396, 24, 350

    def place(epsilon: float, error: float) -> tuple[float, float]:
        across = (math.log(epsilon) - math.log(epsilons[0])) / (
            math.log(epsilons[-1]) - math.log(epsilons[0])
        )
        return left + across * (right - left), bottom - (error - low) / (high - low) * (bottom - top)

    def line(errors: Sequence[float], kind: str) -> str:
        points = " ".join(
            "{:.1f},{:.1f}".format(*place(*pair)) for pair in zip(epsilons, errors, strict=True)
        )
        return f'<polyline class="curve {kind}" points="{points}"/>'

    drawn = [text(left - 50, 14, "test RMSE, stars (lower is better)", "soft", "start")]
    for tick in (0.85, 0.90, 0.95, 1.00):
        _, y = place(1.0, tick)
        drawn.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>')
        drawn.append(text(left - 8, y + 5, f"{tick:.2f}", "soft", "end"))
    for epsilon in epsilons:
        drawn.append(text(place(epsilon, low)[0], bottom + 18, f"{epsilon:g}", "soft"))
    drawn.append(
        text((left + right) / 2, bottom + 40, "epsilon of a whole run, for all ratings of a user", "soft")
    )
    series = (
        (ours, "own", "of-own", "residual"),
        (rows["best AdaDPALS"], "all", "of-all", "best AdaDPALS"),
        (rows["best private baseline"], "plain", "soft", "best baseline"),
        ([without] * len(epsilons), "plain", "soft", "no privacy"),
    )
    for errors, kind, of_label, label in series:
        drawn += [line(errors, kind), text(left + 12, place(1.0, errors[0])[1] - 6, label, of_label, "start")]
    told = "Test error against epsilon on MovieLens 1M: residual below AdaDPALS and the best private baseline"
    return picture(410, 404, told, drawn)


PICTURES = {"way.svg": way, "accuracy-curve.svg": curve}


def main() -> int:
    """Write the pictures, or compare them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    check, status = parser.parse_args().check, 0
    for name, draw in PICTURES.items():
        file, drawn = DOCS / name, draw()
        if not check:
            file.write_text(drawn, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != drawn:
            print(f"{name} is not what would be drawn now: python docs/draw_first_page.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
