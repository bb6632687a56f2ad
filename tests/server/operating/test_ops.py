"""The plain port of a server: what Prometheus can read, whether all is well, and the live report."""

import json
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedboard.common.errors import InputError
from fedboard.server.operating.ops import service_families, start_ops
from fedboard.server.publishing.service import ServiceCounters

pytestmark = pytest.mark.slow

HERE = "127.0.0.1:0"
ROUNDS = [
    {
        "round": 0,
        "seconds": 1.5,
        "answers": 3,
        "refused": {},
        "epsilon_spent": 0.5,
        "delta": 1e-5,
        "bytes_up": 100,
    },
    {
        "round": 1,
        "seconds": 2.5,
        "answers": 2,
        "refused": {"late": 1, "malformed": 2},
        "rejected_rows": 4,
        "epsilon_spent": 1.25,
        "delta": 1e-5,
        "bytes_up": 50,
        "bytes_down": 7,
    },
]


def get(running, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}{path}", timeout=10) as answer:
        return answer.read().decode()


def samples(running):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(get(running, "/metrics"))
        for sample in family.samples
    }


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ROUNDS))
    return tmp_path


def test_rounds_answers_refusals_and_epsilon_are_those_of_the_log(folder):
    with start_ops(HERE, run=folder) as running:
        found = samples(running)

    assert found["fedboard_rounds_total", "made"] + found["fedboard_rounds_total", "lost"] == 2
    assert found["fedboard_answers_total",] == 5
    assert found["fedboard_round_duration_seconds_sum",] == 4.0
    assert found["fedboard_round_duration_seconds_count",] == 2
    assert found["fedboard_rejected_rows_total",] == 4
    assert found["fedboard_answer_bytes_total",] == 150
    assert found["fedboard_question_bytes_total",] == 7
    assert found["fedboard_refusals_total", "late"] == 1
    assert found["fedboard_refusals_total", "malformed"] == 2
    assert found["fedboard_epsilon_spent",] == 1.25
    assert found["fedboard_last_round_duration_seconds",] == 2.5


def test_a_round_that_ends_later_is_seen_and_a_line_that_is_being_written_is_not(folder):
    with start_ops(HERE, run=folder) as running, (folder / "rounds.jsonl").open("a") as log:
        log.write(json.dumps(ROUNDS[1]) + "\n" + '{"round": 3, "answ')
        log.flush()
        assert samples(running)["fedboard_rounds_total", "made"] == 3


def test_a_board_service_tells_requests_bytes_and_times():
    counters = ServiceCounters()
    counters.requests.update({("Fetch", "ok"): 2, ("Watch", "ok"): 1})
    counters.answered, counters.answer_seconds = 2, 0.25
    counters.bytes_sent, counters.rate_limited, counters.streams, counters.latest_version = 12345, 6, 2, 9
    with start_ops(HERE, run=None, families=lambda: service_families(counters)) as running:
        found = samples(running)

    assert found["fedboard_board_requests_total", "Fetch", "ok"] == 2
    assert found["fedboard_board_requests_total", "Watch", "ok"] == 1
    assert found["fedboard_board_sent_bytes_total",] == 12345
    assert found["fedboard_board_rate_limited_requests_total",] == 6
    assert (found["fedboard_board_streams",], found["fedboard_board_version",]) == (2, 9)
    assert found["fedboard_board_request_duration_seconds_count",] == 2
    assert found["fedboard_board_request_duration_seconds_sum",] == 0.25


def health_of(running):
    try:
        return 200, json.loads(get(running, "/healthz"))
    except urllib.error.HTTPError as failing:
        with failing as answer:
            return answer.code, json.loads(answer.read())


def test_health_says_ok_or_what_is_lost_or_what_is_wrong(folder):
    problems = []
    with start_ops(HERE, run=folder, problems=lambda: problems, most_lost=0.4) as running:
        rounds = {"planned": None, "made": 2, "lost": 0}
        assert health_of(running) == (200, {"status": "ok", "rounds": rounds})
        problems += ["the boards cannot be signed", "too few witnesses"]
        code, told = health_of(running)
        assert (code, told["status"]) == (503, "failing")
        assert told["problem"] == "the boards cannot be signed; too few witnesses"
        problems.clear()
        with (folder / "rounds.jsonl").open("a") as log:
            log.write(json.dumps({**ROUNDS[1], "round": 2, "lost": True, "releases": []}) + "\n")
        code, told = health_of(running)
        assert (code, told["status"], told["rounds"]["lost"]) == (200, "degraded", 1)
        with (folder / "rounds.jsonl").open("a") as log:
            log.write(json.dumps({**ROUNDS[1], "round": 3, "lost": True, "releases": []}) + "\n")
        code, told = health_of(running)
        assert (code, told["status"]) == (503, "failing")
        assert "more than rounds.most_lost (0.4) allows" in told["problem"]


def test_the_live_report_is_on_the_same_port_and_leaves_out_what_no_budget_covers(folder):
    with start_ops(HERE, run=folder) as running:
        page = get(running, "/")

    assert "1.25" in page, "what is spent is public"
    assert "malformed" not in page
    assert "2.5 s" not in page, "how long a round took"


def test_nothing_else_is_served(tmp_path):
    with start_ops(HERE, run=tmp_path) as running:
        with pytest.raises(urllib.error.HTTPError) as missing:
            get(running, "/rounds.jsonl")
        missing.value.close()
        assert missing.value.code == 404


def test_a_port_in_use_is_told():
    with (
        start_ops(HERE, run=None) as running,
        pytest.raises(InputError, match="nothing can be served"),
        start_ops(f"127.0.0.1:{running.port}", run=None),
    ):
        pass
