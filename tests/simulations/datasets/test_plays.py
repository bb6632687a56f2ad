"""Play counts as published: told by their looks, read as presence, used as positive feedback whatever the count."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.errors import InputError
from fedboard.simulations.datasets import load_ratings
from fedboard.simulations.datasets.readers import find_source

ANN, BOB = "b80344d063b5ccb3212f76538f3d9e43d87dca9e", "000063d3fe1cf2ba248b9e3c3f0334845a27a6bf"
SONG, OTHER = "SOAKIMP12A8C130995", "SOBBMDR12A8C13253B"
MBID = "af8e4cc5-ef54-458d-a194-7b210acf638f"
NAMES = {"msd": "train_triplets.txt", "lastfm-360k": "usersha1-artmbid-artname-plays.tsv"}
TEXTS = {
    "msd": f"{ANN}\t{SONG}\t1\n{ANN}\t{OTHER}\t9667\n{BOB}\t{SONG}\t2\n",
    "lastfm-360k": f'{ANN}\t{MBID}\tthe "corpse"\t1\n{ANN}\t\telis, queen\t9667\n{BOB}\t\tthe "corpse"\t2\n',
}
ITEMS = {"msd": (SONG, OTHER), "lastfm-360k": ('the "corpse"', "elis, queen")}


def written(folder: Path, name: str, more: str = "") -> Path:
    path = folder / NAMES[name]
    path.write_text(TEXTS[name] + more)
    return path


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("as_folder", [False, True])
def test_play_counts_are_told_and_read_as_presence(name, as_folder, tmp_path):
    path = written(tmp_path, name)
    source = tmp_path if as_folder else path

    assert find_source(source, None, mapped=False).reader.name == name
    ratings = load_ratings(source)

    assert ratings.presence
    assert ratings.rating_range == (0.0, 1.0)
    assert ratings.user_ids.tolist() == [BOB, ANN]
    assert ratings.item_ids.tolist() == sorted(ITEMS[name])
    pairs = {(int(u), str(ratings.item_ids[i])) for u, i in zip(ratings.users, ratings.items, strict=True)}
    assert pairs == {(0, ITEMS[name][0]), (1, ITEMS[name][0]), (1, ITEMS[name][1])}
    assert ratings.values.tolist() == [1.0, 1.0, 1.0]
    assert ratings.positive(3.5).all()


def test_a_pair_that_is_repeated_is_one_and_a_count_of_none_is_nothing(tmp_path):
    more = f"{BOB}\t{SONG}\t30\n{'c' * 40}\t{SONG}\t0\n{BOB}\tSOXXXXX12A8C130995\t0\n"

    ratings = load_ratings(written(tmp_path, "msd", more))

    assert (ratings.n_users, ratings.n_items, ratings.n_ratings) == (2, 2, 3)


def test_an_artist_without_a_name_is_called_by_its_id(tmp_path):
    more = f"{BOB}\t{MBID}\t\t3\n{BOB}\tzz8e4cc5\t\t3\n{ANN}\t{MBID}\t\t4\n"

    ratings = load_ratings(written(tmp_path, "lastfm-360k", more))

    assert ratings.item_ids.tolist() == [MBID, "elis, queen", 'the "corpse"', "zz8e4cc5"]
    assert (ratings.users.tolist(), ratings.items.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 2, 3, 0, 1, 2])


FAULTS = [
    ("msd", f"{ANN}\t{SONG}\t-1\n", "line 4: the count is negative or NaN"),
    ("msd", f"{ANN}\t{SONG}\tnan\n", "line 4: the count is negative or NaN"),
    ("msd", f"{ANN}\t{SONG}\tmany\n", "line 4: rating 'many' is not a number"),
    ("msd", f"{ANN}\t\t1\n", "line 4: the item id is empty"),
    ("msd", f"{ANN}\t{SONG}\n", "line 4: 2 columns where 3 are expected"),
    ("lastfm-360k", f"{ANN}\t\t\t1\n", "line 4: the item id is empty"),
    ("lastfm-360k", f"{ANN}\t\tjam\t\n", "line 4: the rating is empty"),
    ("lastfm-360k", f"{ANN}\tjam\t1\n", "line 4: 3 columns where 4 are expected"),
]


@pytest.mark.parametrize(("name", "line", "expected"), FAULTS)
def test_a_faulty_count_is_named(name, line, expected, tmp_path):
    with pytest.raises(InputError, match=f"{NAMES[name]}, {re.escape(expected)}") as caught:
        load_ratings(written(tmp_path, name, line))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_command_line_trains_on_plays_as_implicit_feedback_alone(tmp_path):
    rng, run = np.random.default_rng(1), tmp_path / "run"
    lines = (f"{u:040x}\tSO{i:016d}\t{u % 3 + 1}\n" for u in range(150) for i in rng.permutation(40)[:12])
    (tmp_path / "train_triplets.txt").write_text("".join(lines))
    words = f"simulate --data {tmp_path} --kernels numpy --no-baselines --no-report --out {run}".split()

    refused = CliRunner().invoke(commands, words)
    ended = CliRunner().invoke(commands, [*words, "--feedback", "implicit"])

    assert refused.exit_code == 2
    assert "there are no ratings to predict. Say --feedback implicit" in " ".join(refused.output.split())
    assert ended.exit_code == 0, ended.output
    assert "150 users" in ended.output
