"""Play counts as published: told by their looks, read as presence, used as positive feedback whatever the count."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.simulations.audit.entrance import Entrance
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.datasets import load_ratings
from fedboard.simulations.datasets.formats import text
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


def test_lines_with_a_date_for_the_user_are_one_user(tmp_path):
    more = f"sep 20, 2008\t{MBID}\tjam\t3\nsep 20, 2008\t\telis, queen\t1\n"

    ratings = load_ratings(written(tmp_path, "lastfm-360k", more))

    assert ratings.user_ids.tolist() == [BOB, ANN, "sep 20, 2008"]
    assert ratings.n_ratings == 5


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


def test_counts_that_are_all_none_are_no_data(tmp_path):
    (tmp_path / "train_triplets.txt").write_text(f"{ANN}\t{SONG}\t0\n")

    with pytest.raises(InputError, match="this count and all others are 0"):
        load_ratings(tmp_path)


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


def test_an_audit_reads_plays_as_plays_again(tmp_path):
    lines = (f"{u:040x}\tSO{(u + i) % 40:016d}\t{i + 1}\n" for u in range(60) for i in range(12))
    (tmp_path / "train_triplets.txt").write_text("".join(lines))
    config = SimulationConfig(feedback=Feedback.IMPLICIT)

    with Entrance(config, load_ratings(tmp_path)) as entrance:
        assert entrance.honest_rows().cohort.n_ratings > 400


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_many_blocks_give_what_one_gives(at_once, tmp_path, monkeypatch):
    rng, path = np.random.default_rng(0), tmp_path / "train_triplets.txt"
    pairs = [(int(u), int(i)) for u in range(50) for i in rng.permutation(20)[:7]]
    rng.shuffle(pairs)
    path.write_text("".join(f"{u:040x}\tSO{i:016d}\t1\n" for u, i in pairs))
    monkeypatch.setattr(text, "BLOCK_BYTES", 700)
    monkeypatch.setattr(text, "BLOCKS_AT_ONCE", at_once)

    ratings = load_ratings(path)

    got = zip(ratings.user_ids[ratings.users], ratings.item_ids[ratings.items], strict=True)
    assert sorted((int(u, 16), int(i[2:])) for u, i in got) == sorted((int(u), int(i)) for u, i in pairs)


@pytest.mark.parametrize("n_blocks", [1, 2, 63, 64, 65])
def test_a_text_is_looked_up_a_few_times_however_many_blocks_there_are(n_blocks, monkeypatch):
    """A file of hundreds of blocks, each with users of its own: put together anew for each, it took hours."""
    joined, rows = text._joined, []

    def counting(tables):
        rows.append(sum(table.num_rows for table in tables))
        return joined(tables)

    monkeypatch.setattr(text, "_joined", counting)
    monkeypatch.setattr(text, "BLOCKS_AT_ONCE", 1)
    names = [[f"user {block} {row}" for row in range(10)] for block in range(n_blocks)]
    blocks = [pa.record_batch({"user": pa.array(part).dictionary_encode()}) for part in names]

    table = text.gathered(iter(blocks))

    assert table.column("user").to_pylist() == [name for part in names for name in part]
    assert table.column("user").num_chunks == 1
    assert sum(rows) <= 10 * n_blocks * (n_blocks.bit_length() + 3)
