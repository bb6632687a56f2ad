"""``fedboard certificate registry``, from the command line: written, checked, and nothing else let through."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from fedboard.cli.exit_codes import ExitCode
from fedboard.common.privacy.deployment import Deployment
from fedboard.common.privacy.releases.noise import SeededNoise
from tests.cli.conftest import Command
from tests.common.certificates import SAID, certificate_of

SECTION = """
[task]
algorithm = "anything: this section is not looked at"
[deployment]
name = "Films: 'quoted' # and: more"
curators = ["日本語の図書館"]
description = \"\"\"Two lines:
- the second, with a tab\\there \"\"\"
intended_use = "- Lists"
published = "2026-05-04"
unprotected = "Nothing"
refresh = "Never"
data_source = "static"
actors = "{braces} & *stars*"
access = "Everybody"
preparation = "None"
justification = "Because"
authors = ["Kari", "Ola"]
audit = "audit.json"
"""


@pytest.fixture
def stated(tmp_path: Path) -> Path:
    """A certificate that carries all that people say."""
    return kept(tmp_path / "stated.json", certificate_of(deployment=SAID).to_json())


@pytest.fixture
def silent(tmp_path: Path) -> Path:
    """One that carries nothing of it."""
    return kept(tmp_path / "silent.json", certificate_of().to_json())


def kept(place: Path, text: str) -> Path:
    place.write_text(text, encoding="utf-8")
    return place


def section(folder: Path) -> Path:
    audit = {"violated": False, "broken": None, "findings": [], "epsilon_claimed": 5.0}
    kept(folder / "audit.json", json.dumps(audit))
    return kept(folder / "fleet.toml", SECTION)


def refused(result: Result, code: ExitCode) -> str:
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1, "one sentence"
    return result.stderr


@pytest.mark.parametrize("suffix", ["json", "yaml", "yml"])
def test_a_record_is_written_and_checked(
    fedboard: Command, stated: Path, tmp_path: Path, suffix: str
) -> None:
    place = tmp_path / f"record.{suffix}"

    written = fedboard("certificate", "registry", stated, "--out", place)
    checked = fedboard("certificate", "registry", stated, "--check", place)
    as_json = fedboard("certificate", "registry", stated, "--check", place, "--json")

    assert (written.exit_code, checked.exit_code, as_json.exit_code) == (0, 0, 0), written.output
    assert "fields are what follows from the certificate." in checked.stdout
    document = json.loads(as_json.stdout)
    assert document | {"checks": 0} == {"holds": True, "checks": 0, "failed": [], "said_here_alone": []}
    assert document["checks"] > 25


def test_without_a_file_the_record_is_the_output(fedboard: Command, stated: Path) -> None:
    read, document = (fedboard("certificate", "registry", stated, *flag).stdout for flag in ((), ("--json",)))

    assert json.loads(read) == json.loads(document)
    assert json.loads(read)["deployment"]["basic"]["name"] == SAID.name
    assert document.count("\n") == 1


def test_what_the_certificate_does_not_say_is_said_by_a_file_and_by_flags(
    fedboard: Command, silent: Path, tmp_path: Path
) -> None:
    place = tmp_path / "record.yaml"
    command = ("certificate", "registry", silent, "--deployment", section(tmp_path))

    missing = fedboard(*command, "--out", place)
    written = fedboard(*command, "--out", place, "--say", "region=Norway", "--say", "authors=Per=Olav")

    assert "give region, each by --say KEY=TEXT" in refused(missing, ExitCode.INPUT)
    assert written.exit_code == 0, written.output
    record = yaml.safe_load(place.read_text(encoding="utf-8"))
    basic = record["deployment"]["basic"]
    assert (basic["name"], basic["data_curators"]) == ("Films: 'quoted' # and: more", ["日本語の図書館"])
    assert basic["description"] == "Two lines:\n- the second, with a tab\there "
    assert record["deployment"]["administrative"]["registry_authors"] == ["Per=Olav"]
    digest = hashlib.sha256((tmp_path / "audit.json").read_bytes()).hexdigest()
    assert digest in record["deployment"]["implementation"]["justification"]
    checked = fedboard("certificate", "registry", silent, "--check", place)
    assert checked.exit_code == 0, checked.output
    assert "Said in the record alone, so nobody can check it: name, curators," in checked.stdout


def test_the_yaml_is_in_the_form_that_the_registry_takes(
    fedboard: Command, silent: Path, tmp_path: Path
) -> None:
    """By its own checks: the slug first, no folded text, so that paragraphs stay."""
    place = tmp_path / "record.yaml"
    said = ("--deployment", section(tmp_path), "--say", "region=Norway")

    fedboard("certificate", "registry", silent, *said, "--out", place)

    text = place.read_text(encoding="utf-8")
    assert text.startswith("url_slug: films-quoted-and-more-日本語の図書館-2026\n")
    styles = {token.style for token in yaml.scan(text, Loader=yaml.SafeLoader) if hasattr(token, "style")}
    assert styles <= {None, "|", '"', "'"}
    assert yaml.safe_load(text)["deployment"]["basic"]["publication_date"] == "2026-05-04", "text, not a date"


def test_a_changed_number_fails(fedboard: Command, stated: Path, tmp_path: Path) -> None:
    place = tmp_path / "record.yaml"
    fedboard("certificate", "registry", stated, "--out", place)
    kept(place, place.read_text(encoding="utf-8").replace("epsilon: 5.0", "epsilon: 1.0"))

    text = fedboard("certificate", "registry", stated, "--check", place)
    as_json = fedboard("certificate", "registry", stated, "--check", place, "--json")

    assert text.exit_code == as_json.exit_code == ExitCode.FAILED
    assert text.stdout.startswith(
        "FAILED  deployment.privacy_loss.privacy_parameters.epsilon: follows as 5.0"
    )
    assert [entry["check"] for entry in json.loads(as_json.stdout)["failed"]] == [
        "deployment.privacy_loss.privacy_parameters.epsilon"
    ]


def test_a_simulation_is_refused_before_anything_is_asked(fedboard: Command, tmp_path: Path) -> None:
    simulated = kept(tmp_path / "simulated.json", certificate_of(noise=SeededNoise(1)).to_json())
    place = kept(tmp_path / "record.json", "{}")

    for flags in (("--out", tmp_path / "made.json"), ("--check", place)):
        told = refused(fedboard("certificate", "registry", simulated, *flags), ExitCode.REFUSED)
        assert "no record is made of a simulation" in told
    assert not (tmp_path / "made.json").exists()


def test_a_certificate_that_does_not_hold_gets_no_record(
    fedboard: Command, stated: Path, tmp_path: Path
) -> None:
    plain = json.loads(stated.read_text(encoding="utf-8"))
    plain["deployment"]["unprotected"] = "Nothing"
    kept(stated, json.dumps(plain))

    told = refused(fedboard("certificate", "registry", stated, "--out", tmp_path / "r.json"), ExitCode.FAILED)

    assert "no record is made: 1 of" in told
    assert "checks failed, the first digest" in told
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--out", "record.txt"), "a record is written as .json or .yaml"),
        (("--say", "region"), "write KEY=TEXT"),
        (("--say", "notes=a", "--say", "notes=b"), "--say notes: said twice"),
        (("--say", "curator=A"), "; did you mean 'curators'?"),
        (("--say", "audit=0"), "name the audit's record by --audit FILE"),
        (("--say", "region=Sweden"), "the certificate states deployment.region otherwise"),
        (("--deployment", "nowhere.toml"), "nowhere.toml: no statement can be read there"),
        (("--audit", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--check", "nowhere.yaml"), "nowhere.yaml: no record can be read there"),
        (("--check", "nowhere.yaml", "--say", "notes=a"), "--check compares what is written"),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(
    fedboard: Command, stated: Path, flags: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(fedboard("certificate", "registry", stated, *flags), ExitCode.INPUT)


BOMB = "a: &a [1, 2]\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, 1]\n" for n in range(40))
HOSTILE: dict[str, Any] = {
    "bomb.yaml": (BOMB, "it has aliases in it"),
    "twice.yaml": ("tier: 1\ntier: 3\n", "a key stands in it twice"),
    "twice.json": ('{"tier": 1, "tier": 3}', "a key stands in it twice"),
    "code.yaml": ("!!python/object/apply:os.system ['touch ran']\n", "could not determine a constructor"),
    "deep.json": ('{"a":' * 100_000 + "1" + "}" * 100_000, "not a record"),
    "deep.yaml": ("a: " + "[" * 1_100 + "]" * 1_100, "not a record"),
    "deeper.yaml": ("a: " + "[" * 60_000, "nested more than 50 deep"),
    "closed.yaml": ("\n" + "}" * 200 + "=a{" * 120, "nested more than 50 deep"),
    "many.yaml": ("a: [" + "[]," * 20_000 + "]", "more than 20000 keys, values and marks"),
    "list.json": ("[1]", "a record is a table"),
    "large.json": (" " * 1_000_001, "at most 1000000 are read"),
    "bytes.yaml": ("\ufffe\x00", "not a record"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_no_record(fedboard: Command, stated: Path, tmp_path: Path, name: str) -> None:
    text, sentence = HOSTILE[name]
    place = kept(tmp_path / name, text)

    assert sentence in refused(fedboard("certificate", "registry", stated, "--check", place), ExitCode.INPUT)


def test_a_deep_table_is_a_field_that_does_not_belong_there(
    fedboard: Command, stated: Path, tmp_path: Path
) -> None:
    place = kept(tmp_path / "deep.json", '{"a":' * 400 + "1" + "}" * 400)

    result = fedboard("certificate", "registry", stated, "--check", place)

    assert result.exit_code == ExitCode.FAILED
    assert "FAILED  a.a.a.a.a: does not belong there" in result.stdout


def test_help_names_every_key(fedboard: Command) -> None:
    told = fedboard("certificate", "registry", "--help").stdout

    assert [key for key in Deployment.__struct_fields__ if key not in told] == []


def test_what_people_say_is_shown_as_theirs(fedboard: Command, stated: Path, silent: Path) -> None:
    told, nothing = (fedboard("certificate", "show", place).stdout for place in (stated, silent))

    assert "\nThe publisher says (recomputed by nobody):\n- name: Film lists of the Example Library\n" in told
    assert "\n- curators: Example Library\n" in told
    assert "publisher" not in nothing
