"""A unit that systemd takes and confines, a container, and alerts and a dashboard of metrics that there are."""

import configparser
import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from fedboard.cli.main import commands
from fedboard.server.fleet.job import prepare
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import StateFolder
from fedboard.server.operating.ops import run_families
from tests.commands import fedboard
from tests.server.fleet.made import a_fleet
from tests.server.fleet.test_status import exposition

SERVER = "fedboard-server.service"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> FleetSettings:
    settings = a_fleet(tmp_path_factory.mktemp("fleet"))
    prepare(settings)
    return settings


@pytest.fixture(scope="module")
def config(fleet: FleetSettings) -> Path:
    return fleet.keys.parent / "fleet.toml"


@pytest.fixture(scope="module")
def kit(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    made = fedboard("fleet", "kit", "--config", config, "--to", folder, "--user", "fedboard")
    assert made.exit_code == 0, made.stderr
    return folder


def service_of(path: Path) -> list[tuple[str, str]]:
    """The lines of its section, in order; keys may stand there twice."""
    section = path.read_text(encoding="utf-8").partition("[Service]\n")[2].partition("\n[")[0]
    lines = [line for line in section.splitlines() if line and not line.startswith("#")]
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def test_the_unit_starts_what_there_is_with_no_more_rights_than_it_needs(
    kit: Path, fleet: FleetSettings
) -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.read_string((kit / SERVER).read_text(encoding="utf-8"))
    assert parser.sections() == ["Unit", "Service", "Install"]
    lines = service_of(kit / SERVER)
    service = dict(lines)
    program, *words = service["ExecStart"].split()
    assert Path(program).name == "fedboard"
    command: Any = commands
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known
    assert service["ReadWritePaths"] == str(fleet.state)
    for key in ("NoNewPrivileges", "MemoryDenyWriteExecute", "PrivateDevices", "RestrictNamespaces"):
        assert service[key] == "yes"
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert (service["Restart"], service["MemoryMax"]) == ("always", "4G")
    assert ("SystemCallFilter", "@system-service") in lines
    assert ("SystemCallFilter", "~@privileged") in lines


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_it_and_finds_it_confined(kit: Path) -> None:
    verify = ["systemd-analyze", "verify", "--man=no", str(kit / SERVER)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    judge = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager"]
    judged = subprocess.run([*judge, str(kit / SERVER)], capture_output=True, text=True, check=False)
    if "unrecognized option" in judged.stderr:
        pytest.skip("needs a later systemd-analyze")
    assert judged.returncode == 0, judged.stdout[-300:]


NOTHING_WRITTEN_IS_EXECUTED = """
import ctypes, sys
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):  # PR_SET_MDWE, as MemoryDenyWriteExecute
    sys.exit(77)
import grpc.aio
from fedboard.cli.main import main
sys.argv = ["fedboard", "fleet", "status", "--config", sys.argv[1]]
main()
"""


@pytest.mark.slow
def test_the_server_s_packages_need_no_memory_that_is_written_and_executed(config: Path) -> None:
    words = [sys.executable, "-c", NOTHING_WRITTEN_IS_EXECUTED, str(config)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("needs a kernel with PR_SET_MDWE")
    assert done.returncode == 0, done.stderr
    assert "not running" in done.stdout


def test_a_file_that_is_there_is_not_written_over(kit: Path, config: Path) -> None:
    changed = kit / "compose.yaml"
    before = changed.read_text()

    refused = fedboard("fleet", "kit", "--config", config, "--to", kit, "--user", "fedboard")

    assert (refused.exit_code, "it is there already" in refused.stderr) == (2, True)
    assert changed.read_text() == before


def test_units_of_paths_that_systemd_would_split_are_refused(config: Path, tmp_path: Path) -> None:
    place = tmp_path / "a fleet"
    shutil.copytree(config.parent, place)

    refused = fedboard("fleet", "kit", "--config", place / "fleet.toml", "--to", tmp_path / "kit")

    assert refused.exit_code == 2
    assert "units take plain paths alone" in refused.stderr
    assert not (tmp_path / "kit").exists()


def test_the_container_runs_commands_that_there_are(kit: Path, fleet: FleetSettings, config: Path) -> None:
    service = yaml.safe_load((kit / "compose.yaml").read_text())["services"]["server"]
    lines = service["build"]["dockerfile_inline"].splitlines()

    assert [line.split()[0] for line in lines] == ["FROM", "COPY", "RUN"]
    assert service["user"].split(":")[0].isdigit()
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    mounted = {volume["target"]: volume.get("read_only", False) for volume in service["volumes"]}
    assert mounted == {str(config.parent): True, str(fleet.state): False}
    for program, *words in (service["command"], service["healthcheck"]["test"][1:]):
        assert program == "fedboard"
        more = ["--check"] if words[0] == "server" else []
        done = fedboard(*words, *more)
        assert done.exit_code == 0, done.stderr


def test_the_firewall_counts_connections_to_the_devices_port(kit: Path, fleet: FleetSettings) -> None:
    text = (kit / "connections.nft").read_text()

    assert text.count(f"tcp dport {fleet.network.listening.port} ct state new") == 2
    assert text.count("{") == text.count("}")
    assert "{{" not in text


CASES = Path(__file__).with_name("alerts_test.yaml")
WORDS = frozenset({"time", "increase", "rate", "min", "histogram_quantile"})
MINUTES = {"m": 1, "h": 60}
Labels = tuple[tuple[str, str], ...]


OF_THE_PORT = {
    "fedboard_device_calls_total": {"status"},
    "fedboard_joins_total": {"outcome"},
    "fedboard_answers_held_bytes": set[str](),
    "fedboard_training_failures": set[str](),
    "fedboard_board_requests_total": {"method", "outcome"},
    "fedboard_board_sent_bytes_total": set[str](),
}
"""What a running server counts in memory."""


@pytest.fixture(scope="module")
def samples(fleet: FleetSettings) -> dict[str, set[str]]:
    """Metric to its labels, of all that is served; ``up`` is Prometheus' own."""
    run, registry = StateFolder.of(fleet).run, CollectorRegistry()
    (run / "rounds.jsonl").write_text('{"round": 0, "seconds": 1.5, "refused": {"late": 1}}\n')

    class OfRun:
        def collect(self) -> Any:
            yield from run_families(run)

    registry.register(OfRun())  # type: ignore[arg-type]
    found: dict[str, set[str]] = {"up": {"job"}, **OF_THE_PORT}
    for text in (exposition(fleet), generate_latest(registry).decode()):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules(kit: Path) -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load((kit / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def asked(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics that it names, each with its labels."""
    bare = re.sub(r"\[\d+[mhd]\]", "", expression)
    for name, labels in re.findall(r"([a-z_]+)(\{[^}]*\})?", re.sub(r'"[^"]*"', '""', bare)):
        if name not in WORDS and (name == "up" or name.startswith("fedboard_")):
            yield name, set(re.findall(r"([a-z]+)=", labels))


def test_every_metric_of_an_alert_or_a_panel_is_served(kit: Path, samples: dict[str, set[str]]) -> None:
    panels = json.loads((kit / "dashboard.json").read_text())["panels"]
    expressions = [rule["expr"] for rule in rules(kit).values()]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]

    wanted = [one for expression in expressions for one in asked(expression)]
    assert len(wanted) > 25
    for name, labels in wanted:
        assert name in samples, name
        assert labels <= samples[name], f"{name} has no labels {labels}"
    assert len({panel["id"] for panel in panels}) == len(panels)
    legends = {t["legendFormat"] for p in panels for t in p["targets"] if "{{" in t["legendFormat"]}
    assert {word for legend in legends for word in re.findall(r"{{(\w+)}}", legend)} <= {
        *("code", "status", "outcome", "method")
    }


class Series:
    """Samples a minute by metric and labels, as promtool writes them: ``0x3 1+2x4`` (value, step, times more)."""

    def __init__(self, given: list[dict[str, str]]) -> None:
        self.values: dict[tuple[str, Labels], list[float]] = {}
        for one in given:
            name, _, labels = one["series"].partition("{")
            found = tuple(re.findall(r'(\w+)="([^"]*)"', labels))
            self.values[name, found] = [value for part in one["values"].split() for value in _expanded(part)]

    def at(self, selector: str, minute: int) -> dict[Labels, float]:
        """Of all series that it selects."""
        name, _, wanted = selector.partition("{")
        labels = set(re.findall(r'(\w+)="([^"]*)"', wanted))
        return {
            key: values[min(minute, len(values) - 1)]
            for (held, key), values in self.values.items()
            if held == name and labels <= set(key)
        }


def _expanded(part: str) -> list[float]:
    match = re.fullmatch(r"(-?\d+)(?:\+(\d+))?x(\d+)", part)
    assert match is not None, part
    value, step, more = float(match[1]), float(match[2] or 0), int(match[3])
    return [value + step * number for number in range(more + 1)]


SELECTOR = r"[a-z_]+(?:\{[^}]*\})?"
FORMS = (
    (re.compile(rf"increase\(({SELECTOR})\[(\d+)([mh])\]\) > (\d+)"), "increase"),
    (re.compile(rf"({SELECTOR}) - time\(\) < (\d+)"), "left"),
    (re.compile(rf"({SELECTOR}) (==|>|<) ({SELECTOR}|\d+)"), "compare"),
)


def holds(expression: str, series: Series, minute: int) -> set[Labels]:
    """Labels for which it is so; of the forms that the rules have."""
    form, match = next((kind, m) for pattern, kind in FORMS if (m := pattern.fullmatch(expression)))
    now = series.at(match[1], minute)
    if form == "increase":
        before = series.at(match[1], max(0, minute - int(match[2]) * MINUTES[match[3]]))
        return {key for key, value in now.items() if value - before[key] > float(match[4])}
    if form == "left":
        return {key for key, value in now.items() if value - 60 * minute < float(match[2])}
    other = float(match[3]) if match[3].isdigit() else next(iter(series.at(match[3], minute).values()))
    compare = {"==": float.__eq__, ">": float.__gt__, "<": float.__lt__}[match[2]]
    return {key for key, value in now.items() if compare(value, other)}


def firing(rule: dict[str, Any], series: Series, minute: int) -> set[Labels]:
    """Labels for which it held as long as it says."""
    lasting = int(str(rule.get("for", "0m")).rstrip("m"))
    spans = [holds(rule["expr"], series, at) for at in range(max(0, minute - lasting), minute + 1)]
    return set.intersection(*spans) if minute >= lasting else set()


def test_alerts_fire_when_they_should_and_not_otherwise(kit: Path) -> None:
    known, quiet, loud = rules(kit), set[str](), set[str]()
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        series = Series(case["input_series"])
        for expected in case["alert_rule_test"]:
            name, rule = expected["alertname"], known[expected["alertname"]]
            wanted = {
                tuple(sorted((k, v) for k, v in one["exp_labels"].items() if k != "severity"))
                for one in expected["exp_alerts"]
            }
            found = {
                tuple(sorted(key)) for key in firing(rule, series, int(expected["eval_time"].rstrip("m")))
            }
            assert found == wanted, name
            assert all(
                one["exp_labels"]["severity"] == rule["labels"]["severity"] for one in expected["exp_alerts"]
            )
            (loud if wanted else quiet).add(name)

    assert loud == quiet == set(known), "each fires in one case and not in another"


def test_promtool_says_the_same(kit: Path, tmp_path: Path) -> None:
    promtool = os.environ.get("FEDBOARD_PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool")
    (tmp_path / "alerts.yaml").write_text((kit / "alerts.yaml").read_text())
    cases = copy.deepcopy(yaml.safe_load(CASES.read_text()))
    for case in cases["tests"]:
        for expected in case["alert_rule_test"]:
            for one in expected["exp_alerts"]:
                one["exp_annotations"] = rules(kit)[expected["alertname"]]["annotations"]
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))

    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "cases.yaml"]):
        done = subprocess.run([promtool, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
