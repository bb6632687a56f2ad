"""What earlier releases wrote is still read and still verified; see ``earlier_formats/README.md``.

Two kinds of certificates: where a plan fixed all releases beforehand everything must pass; where none did, an
earlier release claimed what had been spent so far, which proves less than it says, and is refused for that.
"""

import base64
import json
import shutil
import sqlite3
import tarfile
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.mirror_check import check_source
from fedboard.client.boards.open_board import open_board
from fedboard.client.boards.sources import FolderSource
from fedboard.client.device.config import load_device
from fedboard.client.device.ledger import DeviceLedger
from fedboard.client.device.own_ratings import open_own
from fedboard.client.device.status import status_of
from fedboard.client.guarantee.evidence import read_evidence
from fedboard.client.guarantee.ledger_checks import find_subject, verify_ledger
from fedboard.client.guarantee.verification import verify_evidence
from fedboard.client.recommending.recommend import recommend
from fedboard.common.board import Board
from fedboard.common.board_service.board_signature import PinnedKey, SignedManifest
from fedboard.common.board_service.refusals import FeedCode, FeedRefusedError
from fedboard.common.certificate import Certificate
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.tasks.registry import rebuild_task
from fedboard.server.fleet.plan.job import EnrolledDevices, Job
from fedboard.server.fleet.plan.preparing import prepare
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.simulations.config import parse_config
from fedboard.simulations.simulate import simulate

JOBS = (
    *("poisson", "fixed-size", "shuffled-cohorts", "secure-sum", "dense"),
    *("fleet-plain", "fleet-two-server"),
)
"""Jobs of the first format: of simulations over Flower, and of servers."""
FOLDER = Path(__file__).with_name("earlier_formats")
RUNS = (
    *("residual", "adadpals", "adadpals-clipped", "adadpals-overcount", "dpals-uniform", "dpals-tail"),
    *("adadpsgd", "adadpsgd-clipped", "adadpsgd-overcount", "dpsgd-uniform", "dpsgd-tail", "langevin"),
    *("residual-implicit", "adadpals-implicit"),
    *("residual-secure-sum", "residual-distributed-dp", "residual-two-server", "residual-local"),
    *("residual-poisson", "residual-fixed-size", "residual-cohorts", "residual-replace", "residual-personal"),
    *("residual-population-1", "residual-population-2"),
)
UNDERSTATED = ("residual-fixed-size", "residual-cohorts")
"""Runs whose cost was understated then: one user more takes another's place, which add-remove does not count."""
FLAT = (
    *("residual", "adadpals", "adadpsgd", "dpsgd-tail", "langevin"),
    *("adadpals-implicit", "residual-poisson", "residual-secure-sum"),
)
"""Runs from before a job and an algorithm's settings had sections; their noise is seeded."""
PLACES = tuple(f"runs/{name}" for name in RUNS) + tuple(f"flat/runs/{name}" for name in FLAT)
QUESTIONS = ("pure-1", "pure-2", "gaussian-1", "gaussian-2")
"""Certificates of questions, which nobody had planned."""


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All archives, unpacked."""
    folder = tmp_path_factory.mktemp("earlier")
    for archive in sorted(FOLDER.glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            # Python before 3.11.4 knows no filters; the archives are our own.
            packed.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            packed.extractall(folder)
    return folder


def test_nothing_that_was_kept_is_left_untested(earlier: Path) -> None:
    assert {path.name for path in (earlier / "runs").iterdir()} == {*RUNS, "population.ledger"}
    assert {path.name for path in (earlier / "flat" / "runs").iterdir()} == set(FLAT)
    assert {path.stem for path in (earlier / "flat" / "jobs").iterdir()} == set(JOBS)
    assert {path.stem for path in (earlier / "questions").glob("*.json")} == set(QUESTIONS)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("place", [place for place in PLACES if Path(place).name not in UNDERSTATED])
def test_a_run_with_a_plan_is_read_and_verified_with_its_boards_and_ledger(earlier: Path, place: str) -> None:
    evidence = read_evidence(earlier / place)

    findings = verify_evidence(evidence)

    assert evidence.certificate.planned
    assert evidence.ledger is not None
    assert evidence.board is not None
    assert len(evidence.boards) == evidence.board.version + 1
    assert [f for f in findings if not f.passed] == []
    assert {"chain of boards", "ledger", "booked releases", "budget"} <= {f.check for f in findings}
    assert not verify_ledger(find_subject(earlier / place), ()).failed


@pytest.mark.parametrize("name", UNDERSTATED)
def test_a_run_that_understated_its_cost_is_read_and_refused_for_that(earlier: Path, name: str) -> None:
    evidence = read_evidence(earlier / "runs" / name)

    failed = [finding for finding in verify_evidence(evidence) if not finding.passed]

    assert evidence.certificate.planned
    assert "is not accounted under adjacency add-remove" in failed[0].detail


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_certificate_without_a_plan_is_read_and_refused_for_what_it_claims(
    earlier: Path, name: str
) -> None:
    certificate = Certificate.from_json((earlier / "questions" / f"{name}.json").read_bytes())

    failed = [finding for finding in certificate.verify() if not finding.passed]

    assert not certificate.planned
    assert not certificate.holds
    assert failed[0].check == "commitment"
    assert "what had been spent" in failed[0].detail


@pytest.mark.parametrize(
    "name", ["runs/population.ledger", "questions/pure.ledger", "questions/gaussian.ledger"]
)
def test_ledgers_of_populations_and_questions_are_whole(earlier: Path, name: str) -> None:
    assert not verify_ledger(find_subject(earlier / name), ()).failed


@pytest.mark.parametrize("place", PLACES)
def test_people_get_recommendations_from_boards_of_then(earlier: Path, place: str) -> None:
    board = open_board(earlier / place)
    own = Cohort(
        indptr=np.array([0, 2]),
        items=np.array([0, 3], dtype=np.int32),
        ratings=np.array([1.0, 1.0], dtype=np.float32),
        n_items=board.catalogue.n_items,
    )

    found = recommend(own, board, k=3)

    assert len(found) == 3
    assert all(np.isfinite(entry.score) for entry in found)


@pytest.mark.parametrize("place", PLACES)
def test_the_digest_of_a_board_is_that_of_what_was_written(earlier: Path, place: str) -> None:
    """Whoever edits a configuration, a version or a number has another board than the one that was certified."""
    path = max((earlier / place / "boards").glob("*.board"))
    board = Board.load(path)
    certified = Certificate.from_dict(dict(board.certificate or {})).board_digest

    assert board.digest == certified
    assert Board.from_bytes(np.frombuffer(board.to_bytes(), dtype=np.uint8)).digest == certified
    for name in board.config:
        left = {key: value for key, value in board.config.items() if key != name}
        assert replace(board, config=left, _digest=[]).digest != certified


@pytest.mark.parametrize("place", PLACES)
def test_the_settings_of_a_board_of_then_are_written_as_they_were(earlier: Path, place: str) -> None:
    """So that a training in progress goes on with the boards that it has: its next one has the same settings."""
    board = open_board(earlier / place)

    again = rebuild_task(board).first_board(board.catalogue)

    # Residual alternating minimisation of ratings releases other sums since, and says by what: no run of before
    # goes on.
    since = board.task == "residual" and board.config["feedback"] == "explicit"
    added = {"ridge_evidence": True, "bias_memory": 0.9, "moments_share": None} if since else {}
    assert dict(again.config) == {**board.config, **added}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", ["flat/interrupted/residual", "runs/residual"])
def test_a_run_of_ratings_whose_releases_are_others_today_is_refused_and_left_as_it_is(
    earlier: Path, tmp_path: Path, place: str
) -> None:
    """Its ledger was made for other releases: nothing may be booked beside them."""
    run = Path(shutil.copytree(earlier / place, tmp_path / "run"))
    before = contents(run / "boards")
    with sqlite3.connect(run / "ledger.sqlite") as ledger:
        booked = ledger.execute("SELECT * FROM events").fetchall()
    config = parse_config(json.loads((run / "config.json").read_text(encoding="utf-8")))

    with pytest.raises(PrivacyError, match="made for another budget or plan"):
        simulate(config, run, resume=True, report=False)

    assert contents(run / "boards") == before
    with sqlite3.connect(run / "ledger.sqlite") as ledger:
        assert ledger.execute("SELECT * FROM events").fetchall() == booked
    if (run / "certificate.json").exists():
        assert [finding for finding in verify_evidence(read_evidence(run)) if not finding.passed] == []


@pytest.mark.parametrize("name", ["adadpsgd"])
def test_a_run_that_was_interrupted_then_ends_with_the_board_that_it_was_to_have(
    earlier: Path, tmp_path: Path, name: str
) -> None:
    run = Path(shutil.copytree(earlier / "flat" / "interrupted" / name, tmp_path / name))
    whole = json.loads((earlier / "flat" / "interrupted" / "whole.json").read_text(encoding="utf-8"))
    config = parse_config(json.loads((run / "config.json").read_text(encoding="utf-8")))

    result = simulate(config, run, resume=True, report=False)

    assert result.board.digest == whole[name]
    assert [finding for finding in verify_evidence(read_evidence(run)) if not finding.passed] == []


@pytest.mark.parametrize("name", JOBS)
def test_a_job_of_then_says_the_same_in_sections(earlier: Path, name: str) -> None:
    path = earlier / "flat" / "jobs" / f"{name}.json"
    flat, job = json.loads(path.read_text(encoding="utf-8")), Job.load(path)
    privacy, protocol, helper = job.privacy, job.protocol, job.protocol.helper
    participation = privacy.participation

    told = {
        **{key: getattr(job, key) for key in ("folder", "first_board", "question_key", "dataset", "users")},
        **{key: getattr(job, key) for key in ("backend", "features", "nodes")},
        **{key: getattr(privacy, key) for key in ("epsilon", "delta", "adjacency", "noise", "seed")},
        **{key: getattr(privacy, key) for key in ("population", "lineage")},
        **{key: getattr(participation, key) for key in ("probability", "size", "cohorts")},
        **{key: getattr(job.rounds, key) for key in job.rounds.__struct_fields__ if key != "most_lost"},
        "assumptions": list(job.assumptions),
        "protocol": protocol.name,
        "protocol_settings": protocol.settings,
        "step_seconds": protocol.step_seconds,
        "helper": None if helper is None else msgspec.to_builtins(helper, enc_hook=str),
    }
    assert told == flat
    job.save(earlier / "again.json")
    assert Job.load(earlier / "again.json") == job


@pytest.mark.parametrize("name", ["plain", "two-server"])
def test_a_fleet_s_server_goes_on_with_the_training_that_it_has(
    earlier: Path, tmp_path: Path, name: str
) -> None:
    """Its first board is the one that the settings make today, and its job says what the old one said.

    Theirs are of residual alternating minimisation, whose releases are others today: with the training of then
    nothing goes on, and what is there stays; where the first board is one of today, it does.
    """
    home = Path(shutil.copytree(earlier / "flat" / "fleet", tmp_path / "fleet"))
    state = home / f"state-{name}"
    before = Job.load(state / "job.json")
    moved = Path(before.folder).parents[2]
    there = contents(state)
    with pytest.raises(InputError, match="a training with another task, budget or catalogue is kept there"):
        prepare(read_settings(home / f"{name}.toml"))
    assert contents(state) == there
    text = (state / "job.json").read_bytes()
    shutil.rmtree(state)
    first = prepare(read_settings(home / f"{name}.toml"))
    (state / "job.json").write_bytes(text)  # of the earlier format

    board = prepare(read_settings(home / f"{name}.toml"))

    assert board.digest == first.digest == Board.load(state / "first.board").digest
    written = (state / "job.json").read_text(encoding="utf-8")
    (tmp_path / "moved.json").write_text(written.replace(str(home), str(moved)), encoding="utf-8")
    again = Job.load(tmp_path / "moved.json")
    assert msgspec.structs.replace(again, enrolled=None, line=None) == before
    assert again.line == str(moved / f"state-{name}" / "line"), "for devices that come to the door themselves"
    register = (
        moved / f"state-{name}" / "members.sqlite"
    )  # is new, and lets nobody in: there is no [enrolment]
    assert again.enrolled == EnrolledDevices(
        register=str(register), max_devices=0, max_users=0, max_users_per_device=1
    )
    assert json.loads(written)["format"] == 2


@pytest.mark.parametrize("name", ["adadpsgd"])
def test_a_finished_run_of_then_resumes_as_finished(earlier: Path, name: str) -> None:
    run = earlier / "runs" / name
    digest = open_board(run).digest
    config = parse_config(json.loads((run / "config.json").read_text(encoding="utf-8")))

    result = simulate(config, run, resume=True, report=False)

    assert result.board.digest == digest
    assert [finding for finding in verify_evidence(read_evidence(run)) if not finding.passed] == []


def test_a_device_still_knows_what_it_gave_and_has_left(earlier: Path) -> None:
    home = earlier / "films" / "ann"

    with DeviceLedger.open(home / "state" / "ledger.sqlite", read_only=True) as ledger:
        given = ledger.given()
    status = status_of(load_device(home / "device.toml"))

    assert [one.release for one in given[:4]] == ["mean/sum", "mean/number", "counts", "users"]
    assert {one.about.round for one in given if one.about is not None} == {0, 1, 2}
    assert status.spent == pytest.approx(5.0, rel=1e-6)
    assert status.limit.epsilon == 6.0
    assert recommend(
        open_own(home / "device.toml", None).own, open_own(home / "device.toml", None).board, k=5
    )


def test_a_fleet_s_run_is_verified(earlier: Path) -> None:
    home = earlier / "films" / "state"

    findings = verify_evidence(read_evidence(home / "runs" / "films"))

    assert [finding for finding in findings if not finding.passed] == []
    assert Board.load(home / "first.board").version == 0


def test_a_fleet_s_settings_lack_only_the_key_that_signs_questions(earlier: Path, tmp_path: Path) -> None:
    """A server writes its job anew from these settings when it starts."""
    home = Path(shutil.copytree(earlier / "films", tmp_path / "films"))
    text = (home / "fleet.toml").read_text(encoding="utf-8")

    with pytest.raises(InputError, match="question_key"):
        Job.load(home / "state" / "job.json")
    with pytest.raises(InputError, match="question_key"):
        read_settings(home / "fleet.toml")
    (home / "fleet.toml").write_text(
        text.replace("[network]", '[network]\nquestion_key = "keys/questions.key"'), encoding="utf-8"
    )
    settings = read_settings(home / "fleet.toml")

    assert (settings.name, settings.privacy.epsilon, len(settings.nodes)) == ("films", 5.0, 3)


def test_manifests_that_do_not_say_what_the_noise_is_are_refused_by_name(earlier: Path) -> None:
    """The boards themselves are read; whoever publishes them signs them again."""
    key = PinnedKey.read(earlier / "films" / "keys" / "board-signing.pub")

    with pytest.raises(FeedRefusedError, match="signs them again") as refused:
        next(check_source(FolderSource(earlier / "films" / "mirror"), key, max_bytes=1 << 20))

    assert refused.value.code is FeedCode.OLD_FORMAT
    assert open_board(earlier / "films" / "ann" / "boards").version == 3


def test_manifests_that_never_expire_are_taken_from_a_pinned_key_and_from_no_root(tmp_path: Path) -> None:
    """Readers and publishers are not updated in one night."""
    held = json.loads((FOLDER / "manifest-2.json").read_text(encoding="utf-8"))
    mirror, key = tmp_path / "mirror", Ed25519PublicKey.from_public_bytes(bytes.fromhex(held["key"]))
    manifest = json.loads(held["signed"]["content"])
    packed = next(file for file in manifest["files"] if file["encoding"] == "packed")
    (mirror / "files").mkdir(parents=True)
    (mirror / "latest.json").write_text(json.dumps(held["signed"]))
    (mirror / "files" / packed["sha256"]).write_bytes(base64.b64decode(held["packed"]))

    fetched = BoardFeed(FolderSource(mirror), PinnedKey(key), BoardCache(tmp_path / "cache")).fetch()

    assert (fetched.manifest.format, fetched.manifest.expires) == ("fedboard-manifest-2", None)
    assert open_board(fetched.path).digest == manifest["board_digest"]
    of_root = replace(PinnedKey(key).root, content=b"a document")
    with pytest.raises(FeedRefusedError) as refused:
        PinnedKey(of_root).open(SignedManifest(**held["signed"]))
    assert refused.value.code is FeedCode.OLD_FORMAT


def test_an_edited_certificate_of_then_is_found(earlier: Path) -> None:
    """The checks above can fail."""
    evidence = read_evidence(earlier / "runs" / "residual")
    plain = evidence.certificate.to_dict()
    plain["claim"]["epsilon"] = 1.0

    assert not Certificate.from_dict(plain).holds
