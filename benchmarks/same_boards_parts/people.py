"""Ratings and examples of a few made-up people, by whole numbers alone, so that they are the same everywhere."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


def _numbers(seed: int) -> Iterator[int]:
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        yield seed >> 40


def ratings(users: int = 120, items: int = 30) -> Iterator[tuple[int, int, int, int]]:
    """User, item, rating and time, sorted by neither; some items have many ratings and some few."""
    drawn = _numbers(12345)
    for user in range(users):
        for item in range(items):
            number = next(drawn)
            if number % 97 < 34 - item + user % 5:
                rating = 1 + (number // 97 + user % 3 * (item % 4)) % 5
                yield user * 37 % 997, item * 11 % 101, rating, 10**9 + number % 1000003


@dataclass(frozen=True)
class People:
    """Files in a folder, written when they are asked for."""

    folder: Path
    shard: Callable[[Path, Path], None]
    """Makes the shards of a table in a new folder."""

    @cached_property
    def ratings(self) -> Path:
        rows = (f"u{user},i{item},{rating},{time}\n" for user, item, rating, time in ratings())
        return self._written("ratings.csv", "user,item,rating,timestamp\n", rows)

    @cached_property
    def shards(self) -> Path:
        self.shard(self.ratings, self.folder / "shards")
        return self.folder / "shards"

    @cached_property
    def titles(self) -> Path:
        """Of the items, and of two that nobody rated."""
        items = [*sorted({row[1] for row in ratings()}), 200, 201]
        words = ("Amélie", "Heat", "Night Train", "The Night")
        rows = (f'i{item},"{words[item % 4]}, {words[item // 4 % 4]} ({1960 + item})"\n' for item in items)
        return self._written("titles.csv", "item,title\n", rows)

    @cached_property
    def many_items(self) -> dict[str, str]:
        """A list of so many items that what is counted of them is noise and little else."""
        titles = self._written("many.csv", "item,title\n", (f"i{item},Film {item}\n" for item in range(3000)))
        return {"titles": str(titles), "catalogue": "listed"}

    @cached_property
    def examples(self) -> Path:
        """Labels are linear in five features, by one of two rules."""
        drawn, rows = _numbers(54321), []
        for number in range(60 * 8):
            user, x = number // 8, [next(drawn) % 33 / 16 - 1 for _ in range(5)]
            label = (x[0] - x[1] if user % 2 else x[0] + x[2]) / 2
            rows.append(",".join([f"p{user * 7 % 61}", *map(str, [label, *x])]) + "\n")
        return self._written("examples.csv", "user,label,a,b,c,d,e\n", rows)

    def in_format(self, name: str, files: dict[str, tuple[str, str]]) -> Path:
        """The ratings as files of a format; the file, or the folder of several."""
        place = self.folder / name
        place.mkdir()
        for file, (header, line) in files.items():
            lines = [line.format(*row) for row in ratings()]
            unique = dict.fromkeys(lines) if "Film" in line else lines
            (place / file).write_text(header + "".join(unique), encoding="utf-8")
        return place / next(iter(files)) if len(files) == 1 else place

    def _written(self, name: str, header: str, rows: "Iterator[str] | list[str]") -> Path:
        path = self.folder / name
        path.write_text(header + "".join(rows), encoding="utf-8")
        return path
