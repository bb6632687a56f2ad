"""A frozen board is noticed: what is offered as the newest expires, and its publisher signs it again in time."""

import gzip
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fedboard.client.boards.cache import BoardCache, open_board, out_of_date
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.fetching_cache import FetchingCache
from fedboard.client.boards.mirror_check import check_source
from fedboard.client.boards.sources import FolderSource
from fedboard.client.page.boards import held_board
from fedboard.common.board import Board
from fedboard.common.boards.layout import pack
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.validity import CLOCK_SECONDS, utc_seconds
from fedboard.common.errors import InputError
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.signing import SigningKey
from tests.common.boards.boards import (
    RUN,
    chain,
    keys,
    of_version,
    path_of,
    signed_by_hand,
    signed_mirror,
    write_manifest,
)

DAY = 86_400
NO_LIMIT = 1 << 30


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.read(keys(tmp_path / "keys")[0])


@pytest.fixture
def mirror(tmp_path: Path, key: SigningKey) -> Mirror:
    return signed_mirror(tmp_path, chain(2), key=key)


@pytest.fixture
def cache(tmp_path: Path) -> BoardCache:
    return BoardCache(tmp_path / "cache")


def feed(mirror: Mirror, key: SigningKey, cache: BoardCache, *, at: float | None = None) -> BoardFeed:
    clock = time.time if at is None else lambda: at
    return BoardFeed(FolderSource(mirror.folder), key.public, cache, clock=clock)


def newest(mirror: Mirror, key: SigningKey) -> Manifest:
    return key.public.open(of_version(mirror, mirror.versions()[-1]).signed)


def publish_at(mirror: Mirror, key: SigningKey, at: float) -> list[int]:
    boards = mirror.folder.parent / "boards"
    return publish_into(mirror, boards, key=key, run=RUN, clock=lambda: at)


def refusal(action: object) -> FeedCode:
    assert callable(action)
    with pytest.raises(FeedRefusedError) as refused:
        action()
    return refused.value.code


def test_a_manifest_is_taken_from_when_it_is_signed_until_it_expires(mirror, key, cache) -> None:
    manifest = newest(mirror, key)
    since, until = utc_seconds(manifest.signed), utc_seconds(manifest.expires)

    assert until - since == 30 * DAY
    for at in (since - CLOCK_SECONDS, since, until, until + CLOCK_SECONDS):
        assert feed(mirror, key, cache, at=at).fetch().manifest == manifest
    for at in (0.0, since - CLOCK_SECONDS - 1, until + CLOCK_SECONDS + 1, until + 3650 * DAY):
        assert refusal(feed(mirror, key, cache, at=at).fetch) is FeedCode.OUT_OF_DATE
        assert refusal(lambda at=at: next(feed(mirror, key, cache, at=at).follow())) is FeedCode.OUT_OF_DATE


def test_a_board_that_is_asked_for_by_its_number_may_have_expired(mirror, key, cache) -> None:
    late = utc_seconds(newest(mirror, key).expires) + DAY

    assert feed(mirror, key, cache, at=late).fetch(2).manifest.version == 2


def test_the_publisher_signs_again_when_half_of_the_time_is_over_and_not_before(mirror, key, cache) -> None:
    before = newest(mirror, key)
    since, files = utc_seconds(before.signed), sorted((mirror.folder / "files").iterdir())
    old = path_of(mirror, 2).read_bytes()

    assert publish_at(mirror, key, since + 14 * DAY) == []
    assert newest(mirror, key) == before
    assert publish_at(mirror, key, since + 16 * DAY) == []

    after = newest(mirror, key)
    assert (after.renewal, after.board_digest, after.file) == (1, before.board_digest, before.file)
    assert utc_seconds(after.expires) == since + 46 * DAY
    assert path_of(mirror, 3).read_bytes() == (mirror.folder / "latest.json").read_bytes()
    assert path_of(mirror, 2).read_bytes() == old, "only the newest is renewed"
    assert sorted((mirror.folder / "files").iterdir()) == files, "nothing is trained or written anew"
    assert feed(mirror, key, cache, at=since + 45 * DAY).fetch().manifest == after


def test_an_older_signature_of_the_same_board_is_a_rollback_that_is_remembered(mirror, key, cache) -> None:
    since, first = utc_seconds(newest(mirror, key).signed), path_of(mirror, 3).read_bytes()
    publish_at(mirror, key, since + 16 * DAY)
    feed(mirror, key, cache, at=since + 16 * DAY).fetch()

    (mirror.folder / "latest.json").write_bytes(first)

    assert refusal(feed(mirror, key, cache, at=since + 17 * DAY).fetch) is FeedCode.ROLLBACK


def test_a_renewal_vouches_for_the_board_that_is_there(mirror, key) -> None:
    """A board file that was swapped on the publisher's disk is not signed again."""
    since, place = utc_seconds(newest(mirror, key).signed), mirror.file(newest(mirror, key).file.sha256)
    board = Board.from_bytes(np.frombuffer(gzip.decompress(place.read_bytes()), dtype=np.uint8))
    arrays = {**board.arrays, "item_factors": board.arrays["item_factors"] + np.float32(0.5)}
    place.write_bytes(pack(replace(board, arrays=arrays, _digest=[]).to_bytes()))

    with pytest.raises(InputError, match="not the board of version 3"):
        publish_at(mirror, key, since + 20 * DAY)


def test_what_a_clock_that_was_ahead_signed_is_signed_again(mirror, key, cache, tmp_path) -> None:
    publish_at(mirror, key, time.time() + 400 * DAY)
    assert refusal(feed(mirror, key, cache).fetch) is FeedCode.OUT_OF_DATE

    publish_into(mirror, tmp_path / "boards", key=key, run=RUN)

    assert feed(mirror, key, cache).fetch().manifest.renewal == 2


def test_verify_and_the_page_writer_say_that_it_has_expired(mirror, key) -> None:
    manifest = msgspec.structs.replace(newest(mirror, key), expires="2026-01-01T00:00:00Z")
    write_manifest(mirror, manifest, key=key)

    found = list(check_source(FolderSource(mirror.folder), key.public, max_bytes=NO_LIMIT))
    assert [(one.check, one.detail.partition(":")[0]) for one in found if one.passed is False] == [
        ("version 3", "out-of-date")
    ]
    assert refusal(lambda: held_board(str(mirror.folder), key=key.public)) is FeedCode.OUT_OF_DATE


def test_a_device_answers_nothing_while_its_source_is_frozen(tmp_path, mirror, key, caplog) -> None:
    digest = newest(mirror, key).board_digest
    cache = FetchingCache(
        tmp_path / "device",
        max_bytes=NO_LIMIT,
        source=str(mirror.folder),
        public_key=tmp_path / "keys/board-signing.pub",
        wait_seconds=0.0,
    )
    assert cache.holds(digest)
    frozen = msgspec.structs.replace(
        newest(mirror, key),
        expires="2026-01-01T00:00:00Z",
        renewal=1,
        previous_manifest=of_version(mirror, 3).digest,
    )
    write_manifest(mirror, frozen, key=key)
    (cache.folder / "seen.json").write_bytes(path_of(mirror, 3).read_bytes())

    assert not cache.holds(digest)
    assert "out-of-date" in caplog.text

    publish_into(mirror, tmp_path / "boards", key=key, run=RUN)
    assert cache.holds(digest), "renewed, and nothing was trained for it"


def test_who_only_reads_boards_that_are_here_is_told_and_goes_on(mirror, key, cache, caplog) -> None:
    feed(mirror, key, cache).fetch()
    assert open_board(cache.folder).version == 3
    assert caplog.text == ""

    frozen = msgspec.structs.replace(newest(mirror, key), expires="2026-01-01T00:00:00Z", renewal=1)
    (cache.folder / "seen.json").write_bytes(signed_by_hand(frozen.to_bytes(), key=key).to_bytes())

    assert open_board(cache.folder).version == 3
    assert "was good until 2026-01-01T00:00:00Z, and nothing newer came" in caplog.text


def test_a_clock_that_is_behind_is_named_and_not_the_board(mirror, key, cache) -> None:
    feed(mirror, key, cache).fetch()
    now = time.time()

    told = out_of_date(cache.folder, clock=lambda: now - 3 * 365 * 86_400)

    assert told is not None
    assert "set this clock, which says" in told
    assert "was good until" not in told
    assert out_of_date(cache.folder, clock=lambda: now) is None
