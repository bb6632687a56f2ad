"""A backup and what is gone on with from it: never a release more than its ledger holds, whatever was lost."""

import dataclasses
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from fedboard.client.participation.rounds import Asker, respond
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.messages.signing import QuestionKey
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.backup import back_up
from fedboard.server.fleet.job import job_of, prepare
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.running import run_job
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder, close, reason_of
from fedboard.server.publication import BoardStore
from fedboard.server.publishing.mirror import Mirror, publish_into
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.training import FinishedRound
from tests.commands import fedboard
from tests.server.fleet.local_fleet import Phone, StormyNodes, Weather
from tests.server.fleet.made import N_ITEMS, a_fleet

pytestmark = pytest.mark.slow
N_DEVICES, USERS_EACH = 4, 10
MEMBERS = {f"key-{number}": USERS_EACH for number in range(N_DEVICES)}


class Killed(BaseException):
    """``kill -9``, as far as this process goes."""


def ratings(number: int) -> Cohort:
    random = np.random.default_rng(number)
    items = np.concatenate([random.choice(N_ITEMS, 8, replace=False) for _ in range(USERS_EACH)])
    stars = random.integers(1, 6, items.size).astype(np.float32)
    users = np.repeat(np.arange(USERS_EACH), 8)
    return cohort_from_triples(users, items, stars, n_users=USERS_EACH, n_items=N_ITEMS)


def nodes_of(settings: FleetSettings) -> StormyNodes:
    """Devices in this process; they keep no record of their own, as if all were new."""
    asker = Asker(server=QuestionKey.read(KeysFolder.of(settings).questions).public)
    phones = [Phone(ratings(number), asker=asker) for number in range(N_DEVICES)]

    def answer(number: int, kind: str, frame: bytes, beside: bytes | None) -> bytes:
        return respond(frame, source=phones[number], gate=phones[number])

    return StormyNodes(answer, N_DEVICES, Weather(), lambda: MEMBERS)


def go_on(settings: FleetSettings, *, until: int | None = None) -> list[dict[str, Any]]:
    """Train, and be killed after so many rounds; the lines of the log."""
    prepare(settings)
    state = StateFolder.of(settings)

    def finished(done: FinishedRound) -> None:
        if done.board.version == until:
            raise Killed

    with suppress(Killed):
        run_job(nodes_of(settings), job_of(settings), on_round=finished)
    log = state.run / "rounds.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def booked(settings: FleetSettings) -> list[str]:
    with Ledger.open(StateFolder.of(settings).run / "ledger.sqlite", read_only=True) as ledger:
        return [str(event["name"]) for event in ledger.events()]


def config_of(settings: FleetSettings) -> Path:
    return settings.keys.parent / "fleet.toml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> FleetSettings:
    """A fleet that was killed after two of its three rounds, with an open invitation."""
    settings = a_fleet(
        tmp_path_factory.mktemp("trained") / "fleet",
        privacy={"seed": None},
        rounds={"devices": N_DEVICES, "quorum": 3, "deadline_seconds": 20.0},
        members={"users": N_DEVICES * USERS_EACH},
    )
    assert len(go_on(settings, until=2)) == 2
    with Register(StateFolder.of(settings).members) as register:
        register.invite(b"s" * 32, name="ann", max_users=1, seconds=600)
    return settings


@pytest.fixture(scope="module")
def backup(trained: FleetSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("backups")
    made = fedboard("fleet", "backup", "--config", config_of(trained), "--to", place)
    assert made.exit_code == 0, made.stderr
    (file,) = place.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return file


@pytest.fixture
def lost(trained: FleetSettings, tmp_path: Path) -> Iterator[FleetSettings]:
    """A copy of the server, to go on and be lost after the backup."""
    folder = tmp_path / "lost"
    shutil.copytree(config_of(trained).parent, folder)
    return read_settings(folder / "fleet.toml")  # type: ignore[return-value]


def names_in(backup: Path) -> list[str]:
    """Its files, in the order in which they were written."""
    with zipfile.ZipFile(backup) as archive:
        return archive.namelist()


def restored(backup: Path, to: Path, *words: object) -> Result:
    return fedboard("fleet", "restore", backup, "--to", to, *words)


def test_the_drill_kill_restore_elsewhere_go_on(backup: Path, trained: FleetSettings, tmp_path: Path) -> None:
    newest = StateFolder.of(trained).run / "boards"

    done = restored(backup, tmp_path / "new", "--newest-board", newest)

    assert done.exit_code == 0, done.stderr
    assert "round 2 is booked as lost: it may have been under way" in done.stdout
    assert "1 open invitations are void" in done.stdout
    settings = read_settings(tmp_path / "new" / "fleet.toml")
    assert KeysFolder.of(settings).key.stat().st_mode & 0o077 == 0
    lines = go_on(settings)
    assert [(line["round"], line["lost"]) for line in lines] == [(0, False), (1, False), (2, True)]
    names = booked(settings)
    assert len(names) == len(set(names))
    assert set(booked(trained)) < set(names), "the round that may have been drawn is paid for"
    boards = BoardStore(StateFolder.of(settings).run / "boards")
    before = BoardStore(newest)
    assert [boards.load(v).digest for v in before.versions()] == [
        before.load(v).digest for v in before.versions()
    ]
    assert fedboard("certificate", "verify", StateFolder.of(settings).run).exit_code == 0


def test_where_later_boards_were_published_it_is_refused_and_nothing_is_written(
    backup: Path, lost: FleetSettings, tmp_path: Path
) -> None:
    assert len(go_on(lost)) >= 1
    newest = StateFolder.of(lost).run / "boards"
    assert BoardStore(newest).versions()[-1] == 3

    refused = restored(backup, tmp_path / "new", "--newest-board", newest)

    assert refused.exit_code == 3
    assert "board 3 was published after this backup, whose newest is 2" in refused.stderr
    assert not (tmp_path / "new").exists()


def test_a_later_board_that_is_signed_ends_the_training_wherever_its_mirror_lies(
    backup: Path, lost: FleetSettings, tmp_path: Path
) -> None:
    boards, mirror = StateFolder.of(lost).run / "boards", Mirror(tmp_path / "mirror")
    key = SigningKey.read(*KeysFolder.of(lost).boards)
    publish_into(mirror, boards, key=key, run=lost.name)
    goes_on = restored(backup, tmp_path / "now", "--newest-board", mirror.folder)
    assert goes_on.exit_code == 0, goes_on.stderr
    go_on(lost)
    publish_into(mirror, boards, key=key, run=lost.name)
    mirror.file(mirror.chain()[-1].manifest.file.sha256).unlink()  # as of a copy of the manifests alone

    refused = restored(backup, tmp_path / "shown", "--newest-board", mirror.folder)
    assert refused.exit_code == 3, refused.stderr
    assert "board 3 was published after this backup, whose newest is 2" in refused.stderr

    for word in ("--stopped", "--closed"):
        assert restored(backup, tmp_path / word, word).exit_code == 0
        settings = read_settings(tmp_path / word / "fleet.toml")
        shutil.rmtree(StateFolder.of(settings).mirror, ignore_errors=True)
        shutil.copytree(mirror.folder, StateFolder.of(settings).mirror)
        says = "board 3 is signed there, and the training in .* ends at board 2: it is older than what was released"
        with pytest.raises(PrivacyError, match=says) if word == "--stopped" else nullcontext():
            prepare(settings)


def test_a_training_that_went_two_ways_is_refused(backup: Path, lost: FleetSettings, tmp_path: Path) -> None:
    run = StateFolder.of(lost).run
    other = run / "boards" / "board-0002.board"
    (run / "boards" / "board-0001.board").unlink()
    factors = Board.load(other)
    changed = {name: np.asarray(array) * 2 for name, array in factors.arrays.items()}
    dataclasses.replace(factors, arrays=changed, certificate=None).save(tmp_path / "other.board")

    refused = restored(backup, tmp_path / "new", "--newest-board", tmp_path / "other.board")

    assert refused.exit_code == 3
    assert "went two ways" in refused.stderr


def test_an_old_board_shows_nothing(backup: Path, trained: FleetSettings, tmp_path: Path) -> None:
    old = StateFolder.of(trained).run / "boards" / "board-0001.board"

    refused = restored(backup, tmp_path / "new", "--newest-board", old)

    assert refused.exit_code == 2
    assert "board 1 is older than the backup's, 2" in refused.stderr


def test_somebody_has_to_say_what_happened_since(backup: Path, tmp_path: Path) -> None:
    for words in ((), ("--stopped", "--closed")):
        refused = restored(backup, tmp_path / "new", *words)
        assert refused.exit_code == 2
        assert "say one of: --newest-board" in refused.stderr
    assert not (tmp_path / "new").exists()


def test_nobody_who_can_show_it_may_publish_and_train_no_more(
    backup: Path, trained: FleetSettings, tmp_path: Path
) -> None:
    done = restored(backup, tmp_path / "new", "--closed")

    assert done.exit_code == 0, done.stderr
    settings = read_settings(tmp_path / "new" / "fleet.toml")
    with pytest.raises(PrivacyError, match="this training is closed"):
        go_on(settings)
    assert BoardStore(StateFolder.of(settings).run / "boards").versions() == [0, 1, 2]


def test_a_server_that_was_stopped_loses_no_round(
    backup: Path, trained: FleetSettings, tmp_path: Path
) -> None:
    assert restored(backup, tmp_path / "new", "--stopped").exit_code == 0

    lines = go_on(read_settings(tmp_path / "new" / "fleet.toml"))

    assert [(line["round"], line["lost"]) for line in lines] == [(0, False), (1, False), (2, False)]


def test_a_restore_that_came_to_no_end_trains_nothing_and_asks_nothing(
    backup: Path, trained: FleetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round that may have been under way is not booked then: drawn again it would be released twice."""
    newest = StateFolder.of(trained).run / "boards"

    def missing(settings: FleetSettings) -> None:
        raise InputError("items.csv: no such file")

    with monkeypatch.context() as patched:
        patched.setattr("fedboard.server.fleet.backup.prepare", missing)
        ended = restored(backup, tmp_path / "new", "--newest-board", newest)

    assert (ended.exit_code, "no such file" in ended.stderr) == (2, True)
    settings = read_settings(tmp_path / "new" / "fleet.toml")
    with pytest.raises(PrivacyError, match="that came to no end; restore it again"):
        go_on(settings)
    assert (StateFolder.of(settings).questions / "closed").exists()
    assert restored(backup, tmp_path / "again", "--newest-board", newest).exit_code == 0
    assert reason_of(StateFolder.of(read_settings(tmp_path / "again" / "fleet.toml")).run) is None


def test_a_backup_that_was_changed_or_cut_is_refused(backup: Path, tmp_path: Path) -> None:
    content = backup.read_bytes()
    with zipfile.ZipFile(backup) as archive:
        inner = next(entry for entry in archive.infolist() if entry.filename.endswith("ledger.sqlite"))
        at = inner.header_offset + inner.file_size // 2
    spoilt = {
        "changed": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
        "cut": content[: len(content) // 2],
        "none": b"no archive at all",
        "of the format before": content.replace(b'{"format":3', b'{"format":2'),
        "no backup": b"PK\5\6" + bytes(18),
    }
    for name, bytes_ in spoilt.items():
        (tmp_path / name).write_bytes(bytes_)
        refused = restored(tmp_path / name, tmp_path / "new", "--stopped")
        assert refused.exit_code == 2, name
        assert "this is no whole backup" in refused.stderr
        assert not (tmp_path / "new").exists()


def test_what_does_not_belong_in_a_backup_is_written_nowhere(backup: Path, tmp_path: Path) -> None:
    shutil.copy(backup, tmp_path / "up")
    link = zipfile.ZipInfo("config/link")
    link.external_attr = stat.S_IFLNK << 16
    with zipfile.ZipFile(tmp_path / "up", "a") as archive:
        archive.writestr("../outside", b"x")
        archive.writestr(link, "/etc/passwd")

    assert restored(tmp_path / "up", tmp_path / "new", "--stopped").exit_code == 0

    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "up"]
    assert not (tmp_path / "new" / "link").is_symlink()


def test_a_backup_is_a_new_file_and_is_restored_into_a_new_folder(
    backup: Path, trained: FleetSettings, tmp_path: Path
) -> None:
    taken = fedboard("fleet", "backup", "--config", config_of(trained), "--to", backup)
    assert (taken.exit_code, "something is there" in taken.stderr) == (2, True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    full = restored(backup, tmp_path / "full", "--stopped")
    assert (full.exit_code, "give one that is empty" in full.stderr) == (2, True)
    assert os.listdir(tmp_path / "full") == ["mine"]
    empty = fedboard("fleet", "backup", "--config", config_of(trained), "--to", tmp_path / "none" / "file")
    assert empty.exit_code == 2


def test_the_lines_of_the_guide_work_as_they_are_written(
    trained: FleetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folder of ``fleet.toml``, with relative places; a folder for backups need not be there."""
    shutil.copytree(config_of(trained).parent, tmp_path / "fleet")
    monkeypatch.chdir(tmp_path / "fleet")
    into_a_folder = fedboard("fleet", "backup", "--to", "backups")
    as_a_file = fedboard("fleet", "backup", "--to", "b.fedboard")
    assert (into_a_folder.exit_code, as_a_file.exit_code) == (0, 0), into_a_folder.stderr + as_a_file.stderr
    (file,) = Path("backups").iterdir()
    assert file.name.startswith("trial-2")
    assert stat.S_IMODE(Path("backups").stat().st_mode) == 0o700

    for backup, to in ((file, "new"), (Path("b.fedboard"), "../newer")):
        again = restored(backup, Path(to), "--stopped")
        assert again.exit_code == 0, again.stderr
        assert booked(read_settings(Path(to) / "fleet.toml")) == booked(trained)


def test_a_training_that_was_closed_stays_closed_in_its_backup(lost: FleetSettings, tmp_path: Path) -> None:
    close(StateFolder.of(lost).run, "nobody could show that nothing was released since")
    made = fedboard("fleet", "backup", "--config", config_of(lost), "--to", tmp_path / "one.fedboard")
    assert made.exit_code == 0, made.stderr

    again = restored(tmp_path / "one.fedboard", tmp_path / "new", "--stopped")

    assert again.exit_code == 0, again.stderr
    state = StateFolder.of(read_settings(tmp_path / "new" / "fleet.toml"))
    assert reason_of(state.run) == "nobody could show that nothing was released since"


def test_files_elsewhere_are_named(trained: FleetSettings, tmp_path: Path) -> None:
    shutil.copytree(config_of(trained).parent, tmp_path / "fleet")
    shutil.move(tmp_path / "fleet" / "keys", tmp_path / "keys")
    config = tmp_path / "fleet" / "fleet.toml"
    config.write_text(f'keys = "{tmp_path / "keys"}"\n{config.read_text()}')

    made = fedboard("fleet", "backup", "--config", config, "--to", tmp_path / "a.fedboard")

    assert made.exit_code == 0, made.stderr
    assert f"not in it, since it is elsewhere than fleet.toml: {tmp_path / 'keys'}" in made.stdout
    names = names_in(tmp_path / "a.fedboard")
    assert not [name for name in names if name.endswith("server.key")]
    assert "config/catalogue.csv" in names


def test_a_state_folder_elsewhere_is_restored_there_once_it_is_gone(
    trained: FleetSettings, tmp_path: Path
) -> None:
    shutil.copytree(config_of(trained).parent, tmp_path / "fleet")
    state, config = tmp_path / "disk" / "state", tmp_path / "fleet" / "fleet.toml"
    state.parent.mkdir()
    shutil.move(tmp_path / "fleet" / "state", state)
    config.write_text(f'state = "{state}"\n{config.read_text()}')
    made = fedboard("fleet", "backup", "--config", config, "--to", tmp_path / "a.fedboard")
    assert made.exit_code == 0, made.stderr

    there = restored(tmp_path / "a.fedboard", tmp_path / "new", "--stopped")
    assert (there.exit_code, f"{state}: something is there" in there.stderr) == (2, True)
    assert not (tmp_path / "new").exists()
    shutil.rmtree(state)

    assert restored(tmp_path / "a.fedboard", tmp_path / "new", "--stopped").exit_code == 0
    assert booked(read_settings(tmp_path / "new" / "fleet.toml")) == booked(trained)
    assert state.stat().st_mode & 0o077 == 0


def test_a_backup_is_never_underbooked_for_its_own_boards(trained: FleetSettings, tmp_path: Path) -> None:
    """Whatever is signed and published while it is made comes before what pays for it."""
    state = StateFolder.of(trained)
    for path in (
        state.mirror / "latest.json",
        state.path / "queries" / "1" / "runs" / "q" / "ledger.sqlite",
        state.path / "queries" / "account.sqlite",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    back_up(trained, config_of(trained), tmp_path / "one.fedboard")

    run = f"state/runs/{trained.name}"
    wanted = [
        "state/mirror/latest.json",
        f"{run}/boards/board-0002.board",
        f"{run}/rounds.jsonl",
        "state/queries/1/runs/q/ledger.sqlite",
        f"{run}/ledger.sqlite",
        "state/queries/account.sqlite",
    ]
    assert [name for name in names_in(tmp_path / "one.fedboard") if name in wanted] == wanted
    shutil.rmtree(state.mirror)
    shutil.rmtree(state.path / "queries")


def test_no_backup_is_in_another_nor_in_itself(trained: FleetSettings, tmp_path: Path) -> None:
    """Written where the state is, it would be read as it grows, until the disk is full."""
    shutil.copytree(config_of(trained).parent, tmp_path / "fleet")
    settings = read_settings(tmp_path / "fleet" / "fleet.toml")
    state = StateFolder.of(settings).path
    (state / "earlier.fedboard").write_bytes(b"an earlier one")

    back_up(settings, config_of(settings), tmp_path / "one.fedboard")
    assert not [name for name in names_in(tmp_path / "one.fedboard") if name.endswith(".fedboard")]
    back_up(settings, config_of(settings), state / "two.fedboard")
    assert names_in(state / "two.fedboard") == names_in(tmp_path / "one.fedboard")


def test_nothing_is_left_of_a_backup_that_failed(
    trained: FleetSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look like one, and be in the way of the next."""

    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error", "state/ledger.sqlite")

    with monkeypatch.context() as patched:
        patched.setattr("fedboard.server.fleet.backup._when", failing)
        with pytest.raises(InputError, match="output error: state/ledger"):
            back_up(trained, config_of(trained), tmp_path / "one.fedboard")

    assert not (tmp_path / "one.fedboard").exists()
    back_up(trained, config_of(trained), tmp_path / "one.fedboard")


def test_whom_a_round_has_asked_for_rows_is_in_a_backup(trained: FleetSettings, tmp_path: Path) -> None:
    shutil.copytree(config_of(trained).parent, tmp_path / "fleet")
    config = tmp_path / "fleet" / "fleet.toml"
    run = StateFolder.of(read_settings(config)).run
    (run / "contributions-asked.json").write_text('["trial", 1, "digest"]')

    back_up(read_settings(config), config, tmp_path / "asked.fedboard")

    assert f"state/runs/{run.name}/contributions-asked.json" in names_in(tmp_path / "asked.fedboard")
