"""From what a person types to an item of the catalogue: by id, by title, by a part of the title."""

import re
from difflib import get_close_matches

from fedboard.common.board import Catalogue
from fedboard.common.errors import InputError

_MOST_NAMED = 5
_YEAR = re.compile(r" \(\d{4}\)$")


class ItemIndex:
    """Looks items up by id or full title. An id wins over a title that reads the same."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Index a catalogue."""
        self._catalogue = catalogue
        self._by_id = {item_id: number for number, item_id in enumerate(catalogue.item_ids)}
        self._by_title: dict[str, list[int]] = {}
        self._without_year: dict[str, list[int]] = {}
        for number, title in enumerate(catalogue.titles or ()):
            self._by_title.setdefault(_plain(title), []).append(number)
            self._without_year.setdefault(_YEAR.sub("", _plain(title)), []).append(number)

    def find(self, text: str) -> int:
        """The number of the item with this id or exactly this title; case does not matter in titles.

        Raises:
            InputError: no such item, or a title that several items share.
        """
        wanted = text.strip()
        if wanted in self._by_id:
            return self._by_id[wanted]
        found = self._by_title.get(_plain(wanted), [])
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(f"{wanted!r} is the title of several items: {self._named(found)}; give the id")
        raise InputError(f"{wanted!r} is not in the board's catalogue{self._suggestion(wanted)}")

    def titled(self, text: str) -> int | None:
        """The number of the one item with this title, or with this title and a year behind it (``Heat (1995)``);
        None where there is none, or several.
        """
        found = self._by_title.get(_plain(text), [])
        if not found:
            found = self._without_year.get(_plain(text), [])
        return found[0] if len(found) == 1 else None

    def find_part(self, text: str) -> int:
        """Like ``find``, and where that finds nothing, the one item whose title contains the text.

        Raises:
            InputError: no such item, or several.
        """
        try:
            return self.find(text)
        except InputError:
            part = _plain(text)
            found = [
                n for title, numbers in self._by_title.items() if part and part in title for n in numbers
            ]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"{text!r} is in {len(found)} titles: {self._named(found)}; give more of it, or the id"
            )
        return self.find(text)

    def _named(self, numbers: list[int]) -> str:
        names = [describe(self._catalogue, number) for number in numbers[:_MOST_NAMED]]
        return "; ".join(names) + ("; ..." if len(numbers) > _MOST_NAMED else "")

    def _suggestion(self, wanted: str) -> str:
        close = get_close_matches(_plain(wanted), self._by_title, n=3)
        if not close:
            return ""
        return f"; did you mean {self._named([self._by_title[title][0] for title in close])}?"


def title_of(catalogue: Catalogue, number: int) -> str | None:
    """The title of an item, where titles are known."""
    return None if catalogue.titles is None else catalogue.titles[number]


def describe(catalogue: Catalogue, number: int) -> str:
    """``Title [id]``, or the id alone."""
    title = title_of(catalogue, number)
    return catalogue.item_ids[number] if title is None else f"{title} [{catalogue.item_ids[number]}]"


def _plain(title: str) -> str:
    return " ".join(title.casefold().split())
