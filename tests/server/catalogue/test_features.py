"""Public item features: every format, alignment with the catalogue, standardisation, faults."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.server.catalogue.features import FEWEST_ITEMS, features_of_titles, load_item_features
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem

IDS = [str(item) for item in range(10, 30)]
DRAMA, COMEDY = IDS[:12], IDS[8:18]


def genres_of(item: str) -> list[str]:
    return [name for name, items in (("Drama", DRAMA), ("Comedy", COMEDY)) if item in items]


def year_of(item: str) -> int:
    return 1950 + int(item)


def movies_dat(folder: Path) -> Path:
    lines = [f"{item}::Film {item} ({year_of(item)})::{'|'.join(genres_of(item))}\n" for item in IDS]
    (folder / "movies.dat").write_text("".join(lines), encoding="latin-1")
    return folder / "movies.dat"


def movies_csv(folder: Path) -> Path:
    lines = [
        f'{item},"Film {item}, the ({year_of(item)})",{"|".join(genres_of(item)) or "(no genres listed)"}\n'
        for item in IDS
    ]
    (folder / "movies.csv").write_text("movieId,title,genres\n" + "".join(lines), encoding="utf-8")
    return folder / "movies.csv"


def u_item(folder: Path) -> Path:
    flags = {name: ["0"] * 19 for name in IDS}
    for item in IDS:
        for name, place in (("Drama", 8), ("Comedy", 5)):
            flags[item][place] = "1" if name in genres_of(item) else "0"
    lines = [f"{item}|Film é ({year_of(item)})|01-Jan-1995||url|{'|'.join(flags[item])}\n" for item in IDS]
    (folder / "u.item").write_text("".join(lines), encoding="latin-1")
    return folder / "u.item"


def whole_folder(folder: Path) -> Path:
    return movies_dat(folder).parent


@pytest.mark.parametrize("write", [movies_dat, movies_csv, u_item, whole_folder])
def test_movielens_files_give_year_and_genres_of_each_item(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    wanted = [IDS[7], "404", *IDS[:7], *IDS[:7:-1]]  # any order, with an item that the file does not know

    features = load_item_features(write(tmp_path), wanted)

    described = [item for item in wanted if item != "404"]
    columns = [[float(year_of(item)) for item in described]]
    columns += [[float(name in genres_of(item)) for item in described] for name in ("Comedy", "Drama")]
    expected = np.array([(np.array(c) - np.mean(c)) / np.std(c) for c in columns]).T
    assert features.names == ("year", "genres: Comedy", "genres: Drama")
    assert features.values.dtype == np.float64
    np.testing.assert_allclose(np.delete(features.values, 1, axis=0), expected, atol=1e-12)
    assert not features.values[1].any()
    assert features.n_described == len(wanted) - 1


def test_any_table_gives_numbers_and_labels(tmp_path: Path) -> None:
    rows = [
        f"{place},{item},{'' if place == 3 else place},jazz|live,x{item}" for place, item in enumerate(IDS)
    ]
    rows[0] = f"0,{IDS[0]},0,,x"
    (tmp_path / "any.csv").write_text("note,item_id,length,style,name\n" + "\n".join(rows))

    features = load_item_features(tmp_path / "any.csv", IDS)

    assert features.names == ("note", "length", "style: jazz", "style: live")
    assert features.values[3, 1] == 0.0  # an empty cell is the mean
    np.testing.assert_allclose(features.values.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(features.values[:, 0].std(), 1.0)


def test_rare_labels_and_constant_columns_are_no_features(tmp_path: Path) -> None:
    labels = ["rare"] * (FEWEST_ITEMS - 1) + ["kept"] * FEWEST_ITEMS + ["other"] * (21 - 2 * FEWEST_ITEMS)
    rows = [f"{item},{label},7" for item, label in zip(IDS, labels, strict=True)]
    (tmp_path / "any.csv").write_text("item,kind,constant\n" + "\n".join(rows))

    assert load_item_features(tmp_path / "any.csv", IDS).names == ("kind: kept", "kind: other")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item,a\n10,1\n10,2\n", "line 3: item 10 is there twice"),
        ("item,a\n10,1,3\n", "line 2: 3 columns where 2 are expected"),
        ("item,a\nx,1\ny,2\n", "describes none of the items"),
        ("item,a\n10,1\n11,1\n", "gives 0 features"),
        ("", "describes none of the items"),
        ("item," + ",".join(f"c{k}" for k in range(300)) + "\n" + "".join(
            f"{item}," + ",".join(str(k * int(item)) for k in range(1, 301)) + "\n" for item in IDS
        ), "gives 300 features"),
    ],
)  # fmt: skip
def test_faults_are_one_clear_sentence(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "any.csv").write_text(content)

    with pytest.raises(InputError, match=message) as caught:
        load_item_features(tmp_path / "any.csv", IDS)

    assert "\n" not in str(caught.value)


def test_missing_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        load_item_features(tmp_path / "nothing.dat", IDS)
    with pytest.raises(InputError, match=r"holds none of movies\.dat"):
        load_item_features(tmp_path, IDS)
    with pytest.raises(InputError, match="needs titles"):
        features_of_titles(None)


def test_a_problem_carries_features_in_the_order_of_its_catalogue(tmp_path: Path) -> None:
    made = {"source": "synthetic", "synthetic": {"n_users": 60, "n_items": 80, "mean_ratings_per_user": 10.0}}

    plain = load_problem(parse_config({"data": made}))
    titled = load_problem(parse_config({"data": {**made, "features": "titles"}}))

    assert plain.feature_values is None
    assert titled.catalogue.titles is not None
    assert titled.item_features is not None
    assert titled.feature_values is not None
    assert titled.feature_values.shape == (80, len(titled.item_features.names))
    column = titled.item_features.names.index("genre: drama")
    is_drama = np.array([", drama)" in title for title in titled.catalogue.titles])
    np.testing.assert_array_equal(titled.feature_values[:, column] > 0, is_drama)
    assert f"{len(titled.item_features.names)} public item features (titles, which desc" in titled.statement
    assert "80 of the items" in titled.statement
