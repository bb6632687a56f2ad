"""A device: its configuration, one process at a time that answers for it, what it remembers and tells its owner."""

import stat
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fedboard.client.boards.fetching_cache import FetchingCache
from fedboard.client.participation.config import load_device, make_device
from fedboard.client.participation.opening import open_device, voucher_of
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.records import NewestRoster
from fedboard.client.participation.rounds import respond
from fedboard.client.participation.status import REASONS, status_of
from fedboard.client.ratings.cohort_file import CohortFile, write_cohort
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.board import Board
from fedboard.common.boards.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.messages.question import Answer, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.server.publishing.mirror import publish_into
from fedboard.server.publishing.signing import SigningKey
from fedboard.server.tls import make_authority
from tests.client.asking import SERVER, signed
from tests.client.certified_boards import NO_LIMIT, RUN, a_question, opened, put, refused
from tests.common.algorithms.conftest import N_ITEMS, a_task, population
from tests.common.boards.boards import keys, signed_mirror, write_boards

TASK = a_task(epsilon=5.0)
WITH_POLICY = (
    '[ratings]\nstore = "mine.sqlite"\n[policy]\nepsilon = 8.0\ndelta = 1e-5\nsmallest_catalogue = 5\n'
)
WITH_SERVER = (
    '[server]\naddress = "127.0.0.1:1"\nauthority = "ca.pem"\nkey = "device.key"\n'
    f'question_key = "question-signing.pub"\n{WITH_POLICY}'
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "device.toml").write_text(text)
        return tmp_path / "device.toml"

    return write


@pytest.fixture
def device(tmp_path: Path, write: Callable[[str], Path]) -> Path:
    with RatingStore.create(tmp_path / "mine.sqlite") as store:
        store.put(OwnRating(item=str(item), rating=4.0) for item in range(0, N_ITEMS, 3))
    SERVER.write(tmp_path)
    make_authority(tmp_path / "ca.pem", tmp_path / "ca.key", name="films")
    return write(WITH_SERVER)


def ask(path: Path, board: Board) -> bytes:
    question = a_question(board)
    with open_device(path) as (source, gate):
        return opened(respond(signed(question.content), source=source, gate=gate), question)


def test_a_new_device_is_what_its_comments_say(tmp_path: Path) -> None:
    path = make_device(tmp_path / "mine", epsilon=3, delta=1e-7, adjacency="replace")

    config = load_device(path)
    assert config.policy == Policy(epsilon=3.0, delta=1e-7, adjacency=Adjacency.REPLACE)
    assert config.ratings.store == tmp_path / "mine" / "ratings.sqlite"
    assert config.state == tmp_path / "mine" / "state"
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700
    with pytest.raises(InputError, match="there is a device already"):
        make_device(tmp_path / "mine", epsilon=3, delta=1e-7, adjacency="replace")


def test_every_commented_key_is_one(tmp_path: Path) -> None:
    text = make_device(tmp_path / "mine", epsilon=3, delta=1e-7, adjacency="replace").read_text()
    lines = [
        line.removeprefix("# ")
        for line in text.splitlines()
        if line and not line.startswith(("# What", "# Whatever", "# The limit"))
    ]
    every = "\n".join(line for line in lines if not line.startswith("store ="))
    assert len(tomllib.loads(every)["policy"]) == len(Policy.__struct_fields__)
    (tmp_path / "device.toml").write_text(every)

    config = load_device(tmp_path / "device.toml")
    assert config.ratings.cohort == tmp_path / "cohort"
    assert config.server is not None
    assert config.server.authority == tmp_path / "authority.pem"
    assert config.server.key == tmp_path / "device.key"
    assert config.board.public_key == tmp_path / "boards.pub"
    assert config.board.source == "fedboard.example.org:8443"  # the port of [server]: there is one
    assert config.board.ca_certificate == tmp_path / "ca.pem"


@pytest.mark.parametrize("fields", [{"epsilon": 0.0}, {"epsilon": 1.0, "delta": 1.0}])
def test_a_limit_that_is_none_makes_no_device(tmp_path: Path, fields: dict[str, float]) -> None:
    with pytest.raises(PrivacyError):
        make_device(tmp_path / "mine", **{"delta": 1e-6, **fields}, adjacency="replace")
    assert not (tmp_path / "mine").exists()


def _with_server(address: str) -> str:
    server = f'address = "{address}"\nauthority = "ca.pem"\nkey = "device.key"\n'
    return f'[ratings]\nstore = "a"\n[policy]\nepsilon = 1\n[server]\n{server}'


def test_a_source_is_trusted_on_the_word_of_the_fleet_s_own_authority(
    tmp_path: Path, write: Callable[[str], Path]
) -> None:
    alone, named = "[boards]\n", '[boards]\nca_certificate = "other.pem"\n'
    found = [
        load_device(write(text + board)).authority(source)
        for text in (WITH_POLICY, _with_server("fleet:8443"))
        for board in (alone, named)
        for source in ("fleet:8445", "https://boards.example.org")
    ]

    other, fleet = tmp_path / "other.pem", tmp_path / "ca.pem"
    assert found == [None, None, other, other, fleet, None, other, other]


POLICY = '[ratings]\nstore = "a"\n[policy]\n'
OF_POLICY = {
    'helper = "ab"': "helper must be 64 hexadecimal digits",
    "least_survivors = 1": "least_survivors must be",
    "most_honest = 0": "most_honest must be",
    "delta = 2": "delta must be in (0, 1)",
    'adjacency = "both"': "adjacency",
    "epsilon_per_run = 0": "epsilon_per_run must be > 0",
    "smallest_scale = 0": "smallest_scale must be in (0, 1]",
    "least_noise = nan": "least_noise must be",
    "smallest_catalogue = 0": "smallest_catalogue must be",
    "epsilom_per_run = 1": "unknown key 'epsilom_per_run'",
    "[server]": "missing required field `address`",
}
MISTAKES = {
    "": "missing required field `ratings`",
    "[ratings": "not valid TOML",
    '[ratings]\nstore = "a"\n': "missing required field `policy`",
    POLICY: "missing required field `epsilon` - at `$.policy`",
    POLICY.replace('"a"', "3"): "must be the text of a path",
    "[ratings]\n[policy]\nepsilon = 1\n": "either store or cohort",
    POLICY.replace('"a"', '"a"\ncohort = "b"') + "epsilon = 1\n": "either store or cohort",
    POLICY.replace('"a"', '"a"\nfirst_row = -1') + "epsilon = 1\n": "first_row must be >= 0",
    POLICY + 'epsilon = "much"\n': "policy.epsilon must be a number, got a text",
    POLICY + "epsilon = inf\n": "epsilon of a budget must be",
    **{f"{POLICY}epsilon = 1\n{line}\n": says for line, says in OF_POLICY.items()},
    **{
        _with_server(address): "HOST:PORT and nothing else, such as fedboard.example.org:8443, got "
        f"'{address}'"
        for address in ("https://127.0.0.1:8443", ":8443")
    },
}


@pytest.mark.parametrize(("text", "says"), MISTAKES.items())
def test_a_mistake_in_the_file_is_named(write: Callable[[str], Path], text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        load_device(write(text))
    assert says in str(refused.value)
    assert "device.toml" in str(refused.value)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="make one with `fedboard ratings init`"):
        load_device(tmp_path / "device.toml")


def test_a_device_answers_from_its_store(device: Path, boards: list[Board]) -> None:
    answer = Answer.from_bytes(ask(device, boards[1]), limit=NO_LIMIT)

    assert answer.rows.items.tolist() == list(range(0, N_ITEMS, 3))
    assert stat.S_IMODE((device.parent / "state").stat().st_mode) == 0o700


def test_a_gateway_answers_for_all_its_users(
    tmp_path: Path, write: Callable[[str], Path], boards: list[Board]
) -> None:
    write_cohort(tmp_path / "cohort", population(), boards[0].catalogue.item_ids)
    SERVER.write(tmp_path)
    path = write(WITH_SERVER.replace('store = "mine.sqlite"', 'cohort = "cohort"\nfirst_row = 5'))

    with open_device(path) as (source, _):
        assert isinstance(source, CohortFile)
    answer = Answer.from_bytes(ask(path, boards[1]), limit=NO_LIMIT)
    assert (answer.n_users, answer.first_row) == (population().n_users, 5)


def test_two_at_once_cannot_answer(device: Path, boards: list[Board]) -> None:
    with open_device(device), pytest.raises(PrivacyError, match="another process"), open_device(device):
        pass
    assert refused(ask(device, boards[0])) is None


RACER = """
import sys, time
from pathlib import Path
from fedboard.client.participation.rounds import respond
from fedboard.client.participation.opening import open_device, voucher_of
from fedboard.common.errors import FedboardError

device, question, answer, start = sys.argv[1:]
content = Path(question).read_bytes()
time.sleep(max(0.0, float(start) - time.time()))
try:
    with open_device(Path(device)) as (source, gate):
        Path(answer).write_bytes(respond(content, source=source, gate=gate))
except FedboardError:
    pass
"""


def test_a_device_is_opened_without_answers_whose_time_is_over(device: Path, boards: list[Board]) -> None:
    ask(device, boards[0])
    (kept,) = (device.parent / "state" / "answers").iterdir()
    long_ago = int(time.time() - 25 * 3600).to_bytes(8, "little")
    kept.write_bytes(long_ago + kept.read_bytes()[8:])

    with open_device(device):
        assert not kept.exists()


def test_a_device_that_pins_no_server_answers_nobody(device: Path, boards: list[Board]) -> None:
    device.write_text(device.read_text().replace("question_key", "# question_key"))

    assert refused(ask(device, boards[0])) is Refusal.BAD_SIGNATURE
    assert status_of(load_device(device))["runs"] == []


def test_a_question_of_more_bytes_than_the_device_takes_is_not_read(
    device: Path, boards: list[Board]
) -> None:
    text = device.read_text()
    device.write_text(text.replace("[ratings]", "max_question_megabytes = 1\n[ratings]"))
    assert refused(ask(device, boards[0])) is None
    with open_device(device) as (source, gate):
        assert respond(b"x" * ((1 << 20) + 1), source=source, gate=gate) == refusal(Refusal.TOO_LARGE)
    for wrong in (0, 65537):
        device.write_text(text.replace("[ratings]", f"max_answer_megabytes = {wrong}\n[ratings]"))
        with pytest.raises(InputError, match=r"max_answer_megabytes of \[server\] must be in \[1, 65536\]"):
            load_device(device)
    for wrong in (0, 2048):
        device.write_text(text.replace("[ratings]", f"max_question_megabytes = {wrong}\n[ratings]"))
        with pytest.raises(InputError, match=r"max_question_megabytes of \[server\] must be in \[1, 2047\]"):
            load_device(device)


def test_a_state_folder_that_was_open_is_narrowed(device: Path, boards: list[Board]) -> None:
    state = load_device(device).state
    state.mkdir(mode=0o755)
    ask(device, boards[0])
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_the_status_counts_what_was_refused_before_the_gate(device: Path, boards: list[Board]) -> None:
    over = boards[2].successor()
    unheard_of = a_question(boards[0], form="unheard-of")
    unread = [b"no question", *(signed(c) for c in (b"?", unheard_of.content, a_question(over).content))]
    for content in unread:
        with open_device(device) as (source, gate):
            respond(content, source=source, gate=gate)

    expected = {Refusal.UNSIGNED: 1, Refusal.MALFORMED: 1, Refusal.WRONG_FORM: 1, Refusal.WRONG_ROUND: 1}
    assert status_of(load_device(device))["refusals"] == expected


@pytest.mark.slow
def test_processes_that_race_answer_one_thing_once(device: Path, boards: list[Board], tmp_path: Path) -> None:
    """Two boards of one round, asked at the same moment of processes of one device."""
    other = a_task(epsilon=5.0, public_seed=3).first_board(boards[0].catalogue)
    questions = [a_question(board) for board in (boards[0], other)]
    for number, question in enumerate(questions):
        (tmp_path / f"question-{number}").write_bytes(signed(question.content))
    start = str(time.time() + 2.0)
    racers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                RACER,
                device,
                tmp_path / f"question-{n % 2}",
                tmp_path / f"answer-{n}",
                start,
            ]
        )
        for n in range(4)
    ]
    assert [racer.wait(timeout=180) for racer in racers] == [0] * 4

    found = {
        opened(path.read_bytes(), questions[int(path.name[-1]) % 2]) for path in tmp_path.glob("answer-*")
    }
    assert len([answer for answer in found if refused(answer) is None]) == 1
    (given,) = status_of(load_device(device))["runs"]
    assert given["rounds"] == [0]
    assert given["releases"] == len(TASK.requests(boards[0]))


def test_the_limit_can_be_lowered_and_not_raised(
    device: Path, write: Callable[[str], Path], boards: list[Board]
) -> None:
    assert refused(ask(device, boards[0])) is None
    write(WITH_SERVER.replace("epsilon = 8.0", "epsilon = 0.01"))
    assert refused(ask(device, boards[1])) is Refusal.OVER_LIMIT
    for change in (
        ("epsilon = 8.0", "epsilon = 9.0"),
        ("1e-5", "1e-4"),
        ("1e-5", '1e-5\nadjacency = "replace"'),
    ):
        write(WITH_SERVER.replace(*change))
        with pytest.raises(InputError, match="was made for at most epsilon 8"), open_device(device):
            pass


def test_the_status_says_what_was_given(device: Path, boards: list[Board]) -> None:
    before = status_of(load_device(device))
    assert (before["epsilon"], before["runs"]) == ({"spent": 0.0, "limit": 8.0, "left": 8.0}, [])
    assert not (device.parent / "state").exists()  # looking changes nothing

    for board in boards:
        ask(device, board)
    ask(device, boards[0])
    cache = load_device(device).board_cache()
    put(cache, boards[2])
    with open_device(device):  # looking is possible while it answers
        found = status_of(load_device(device))

    (given,) = found["runs"]
    assert (given["run"], given["rounds"], given["scale"]) == (RUN, [0, 1, 2], 1.0)
    assert given["releases"] == sum(len(TASK.requests(board)) for board in boards)
    assert given["epsilon"] == pytest.approx(5.0, rel=1e-3)
    spent = found["epsilon"]["spent"]
    assert (spent, found["epsilon"]["left"]) == (pytest.approx(5.0, rel=1e-3), 8.0 - spent)
    assert found["refusals"] == {"answered-before": 1}
    assert (found["users"], found["ratings"]) == (1, 9)
    assert [board["digest"] for board in found["boards"]] == [boards[2].digest]
    assert found["limits"] == msgspec.to_builtins(load_device(device).policy)


def _published_only(device: Path, mirror: Path, public_key: Path) -> None:
    policy = device.read_text() + "published_only = true\n"
    device.write_text(f'{policy}[boards]\nsource = "{mirror}"\npublic_key = "{public_key}"\n')


def test_a_board_that_is_asked_about_is_fetched_and_waited_for(device: Path, boards: list[Board]) -> None:
    """A server asks as soon as a board is made; it is signed a moment later."""
    folder = device.parent
    private, public = keys(folder / "keys")
    key = SigningKey.read(private)
    mirror = signed_mirror(folder / "publisher", boards[:1], key=key, run=RUN)
    _published_only(device, mirror.folder, public)

    def publish() -> None:
        publish_into(mirror, write_boards(folder / "publisher" / "boards", boards[:2]), key=key, run=RUN)

    later = threading.Timer(0.5, publish)
    later.start()
    assert refused(ask(device, boards[1])) is None
    later.join()


@pytest.mark.parametrize("passing", [True, False])
def test_a_board_that_is_not_published_is_not_held(
    tmp_path: Path, boards: list[Board], passing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    private, public = keys(tmp_path / "keys")
    mirror = signed_mirror(tmp_path, boards[:1], key=SigningKey.read(private), run=RUN)
    if not passing:
        (_, public) = keys(tmp_path / "theirs")
    cache = FetchingCache(
        tmp_path / "cache",
        max_bytes=NO_LIMIT,
        source=str(mirror.folder),
        public_key=public,
        wait_seconds=0.1 if passing else 60.0,
    )

    assert not cache.holds(boards[1].digest)
    assert cache.holds(boards[0].digest) is passing
    assert f"does not publish the board {boards[1].digest[:16]}" in caplog.text
    assert ("bad-signature" in caplog.text) is not passing


def test_what_a_source_needs_is_read_before_anybody_asks(device: Path) -> None:
    _published_only(device, device.parent, device.parent / "absent.pub")

    with pytest.raises(InputError, match=r"absent\.pub"), open_device(device):
        pass


def _cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.mark.slow
@pytest.mark.parametrize("file", ["mine.sqlite", "state/ledger.sqlite", "state/refusals.json"])
@pytest.mark.parametrize("damage", [_cut, lambda path: path.write_bytes(b"\xff" * 5000)])
def test_with_a_damaged_file_nothing_is_answered(
    device: Path, boards: list[Board], file: str, damage: Callable[[Path], object]
) -> None:
    ask(device, boards[0])
    ask(device, boards[2])
    ask(device, boards[1])  # refused, and counted
    damage(device.parent / file)

    with pytest.raises(FedboardError), open_device(device):
        pass


AUTHORITY = RosterAuthority()


def a_roster(number: int, *, fleet: str = "films", devices: int = 2) -> Roster:
    keys = [IdentityKey().public for _ in range(devices)]
    return AUTHORITY.sign(keys, fleet=fleet, number=number, seconds=60)


def not_admitted(seen: NewestRoster, roster: Roster) -> bool:
    with pytest.raises(RefusedError) as error:
        seen.admit(roster)
    return error.value.code is Refusal.OTHER_ROSTER


def test_an_older_list_and_another_one_of_the_same_number_are_refused_also_after_a_restart(
    tmp_path: Path,
) -> None:
    place = tmp_path / "rosters.json"
    second, third = a_roster(2), a_roster(3)
    NewestRoster(place).admit(second)
    NewestRoster(place).admit(second)
    NewestRoster(place).admit(third)

    restarted = NewestRoster(place)

    assert not_admitted(restarted, second)
    assert not_admitted(restarted, a_roster(3))
    restarted.admit(third)
    restarted.admit(a_roster(1, fleet="books"))  # another fleet counts by itself
    assert place.stat().st_mode & 0o077 == 0


def test_a_damaged_file_is_said_and_not_begun_anew(tmp_path: Path) -> None:
    place = tmp_path / "rosters.json"
    place.write_text("{")

    with pytest.raises(InputError, match="damaged"):
        NewestRoster(place)


def test_a_device_is_told_of_the_identity_that_its_policy_needs(tmp_path: Path) -> None:
    private, _ = IdentityKey().write(tmp_path)
    text = """
ratings = { store = "ratings.sqlite" }
policy = { epsilon = 1.0, delta = 1e-5, vouched_by = "%s" }
server = { address = "127.0.0.1:9", authority = "ca.pem", key = "device.key"%s }
"""
    config = tmp_path / "device.toml"
    config.write_text(text % (AUTHORITY.public.hex(), ""))
    with pytest.raises(InputError, match="fedboard keys new identity"):
        voucher_of(load_device(config))

    config.write_text(text % (AUTHORITY.public.hex(), f', identity_key = "{private.name}"'))
    voucher = voucher_of(load_device(config))
    assert voucher is not None
    assert voucher.authority == AUTHORITY.public
    config.write_text(text % ("nobody", ""))
    with pytest.raises(InputError, match="vouched_by must be 64 hexadecimal digits"):
        load_device(config)


def test_every_code_has_its_words() -> None:
    assert set(REASONS) == set(Refusal)
