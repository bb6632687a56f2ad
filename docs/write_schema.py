"""Write the JSON Schema of a certificate, ``docs/certificate.schema.json``, from the types and rules that read it.

usage: python docs/write_schema.py           # writes docs/certificate.schema.json
       python docs/write_schema.py --check   # exit code 1 if it is not what would be written

What a schema can say of one field it says: type, range, whether it must be there, and that nothing else may be.
Whether the numbers follow from each other, only ``fedboard certificate verify`` says.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.certificate import Certificate
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import FILTER, PLAN
from fedboard.common.privacy.events import LAPLACE_GRID, PARTICIPATION, STATED, Rule

PLACE = Path(__file__).with_name("certificate.schema.json")
TITLE = "Certificate of a fedboard run"
DESCRIPTION = (
    "What a board promises its users, with every number that the promise is recomputed from. That a document fits "
    "this schema says nothing about whether it holds: `fedboard certificate verify` does."
)
_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
_BOUND = {"type": "number", "minimum": 0}
_SHARE = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
_COUNT = {"type": "integer", "minimum": 0}
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_ADJACENCY = {"enum": [str(adjacency) for adjacency in Adjacency]}
_CURVE = {"delta": _SHARE, "epsilon": _BOUND, "epsilon_rdp": _BOUND, "epsilon_zcdp": _BOUND}
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "Certificate": {"format": {"const": 4}, "digest": _DIGEST},
    "Guarantee": {"epsilon": _BOUND, "delta": _SHARE, "adjacency": _ADJACENCY, "unit": {"const": "user"}},
    "Composition": {"mu": _BOUND, "rho": _BOUND} | {key: _BOUND for key in _CURVE if key != "delta"},
    "CurvePoint": _CURVE,
    "Implied": {"rating_epsilon": _BOUND, "pair_epsilon": _BOUND},
    "Commitment": {
        "rule": {"enum": [PLAN, FILTER]},
        "epsilon": _POSITIVE,
        "delta": _SHARE,
        "adjacency": _ADJACENCY,
    },
    "PopulationTotal": {
        **dict.fromkeys(("budget", "spent", "committed", "lineage_spent"), _BOUND),
        **{"delta": _SHARE, "adjacency": _ADJACENCY, "runs": _COUNT, "releases": _COUNT},
    },
    "RoundsMade": {"planned": _COUNT, "made": _COUNT, "lost": _COUNT},
}
"""What a field must be beyond its type, where the reader of a certificate refuses anything else."""
_DERIVED = {
    "gaussian": {"l2_sensitivity": _POSITIVE, "noise_stddev": _POSITIVE, "release_shift": _COUNT},
    "laplace": {},
    "exponential": {},
}
_NOISE = {"noise": {"type": "string"}, "private": {"type": "boolean"}}
_MAY = {
    "seed": {"type": "integer"},
    "participation": {"$ref": "#/$defs/Participation"},
    "shares": {
        "type": "object",
        "properties": {"least": {"type": "integer", "minimum": 1}},
        "required": ["least"],
        "additionalProperties": False,
    },
}
"""What some events have: a seed where noise follows from one, who took part where not all did, shares of noise."""


def schema() -> dict[str, Any]:
    """The whole schema, JSON Schema draft 2020-12."""
    (found,), types = msgspec.json.schema_components([Certificate], ref_template="#/$defs/{name}")
    del found
    kinds = {name: _closed(name, dict(kind)) for name, kind in types.items()}
    whole = kinds.pop("Certificate")
    whole["properties"]["releases"]["items"] = {"$ref": "#/$defs/Release"}
    whole["required"] = [*whole["required"], "format", "digest"]
    kinds["Commitment"]["properties"]["plan"] = _plan()
    kinds["Release"] = _release()
    kinds["Participation"] = {"oneOf": [_participation(kind, rules) for kind, rules in PARTICIPATION.items()]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": DESCRIPTION,
        **{key: value for key, value in whole.items() if key not in ("title", "description")},
        "$defs": dict(sorted(kinds.items())),
    }


def _closed(name: str, kind: dict[str, Any]) -> dict[str, Any]:
    """A type's schema with the ranges of its fields, and with no place for others."""
    kind["properties"] = {key: dict(value) for key, value in kind["properties"].items()}
    for key, rule in _FIELDS.get(name, {}).items():
        default = {k: v for k, v in kind["properties"][key].items() if k == "default"}
        kind["properties"][key] = {**rule, **default}
    if "description" in kind:
        kind["description"] = kind["description"].partition("\n\n")[0].replace("``", "`")
    return {**kind, "additionalProperties": False}


def _plan() -> dict[str, Any]:
    """Release name to noise multiplier, or to a table with who takes part."""
    multiplier = STATED["gaussian"]["noise_multiplier"].schema
    entry = {
        "type": "object",
        "properties": {"noise_multiplier": multiplier, "participation": {"$ref": "#/$defs/Participation"}},
        "required": ["noise_multiplier"],
        "additionalProperties": False,
    }
    planned = {"type": "object", "additionalProperties": {"anyOf": [multiplier, entry]}}
    return {"anyOf": [{"type": "null"}, planned], "default": None}


def _release() -> dict[str, Any]:
    """A booked event of any mechanism, by the rules that the ledger and ``verify`` hold it to."""
    known: list[dict[str, Any]] = []
    for mechanism, rules in STATED.items():
        forms = [rules, {**rules, **LAPLACE_GRID}] if mechanism == "laplace" else [rules]
        known += [_event(mechanism, form) for form in forms]
    return {"description": "One booked release.", "oneOf": known}


def _event(mechanism: str, rules: Mapping[str, Rule]) -> dict[str, Any]:
    stated = {key: rule.schema for key, rule in rules.items()}
    must = {"mechanism": {"const": mechanism}, **stated, **_DERIVED[mechanism], **_NOISE}
    return {
        "type": "object",
        "properties": {**must, **_MAY},
        "required": list(must),
        "additionalProperties": False,
    }


def _participation(kind: str, rules: Mapping[str, Rule]) -> dict[str, Any]:
    must = {"kind": {"const": kind}, **{key: rule.schema for key, rule in rules.items()}}
    return {"type": "object", "properties": must, "required": list(must), "additionalProperties": False}


def main() -> int:
    """Write the file, or say whether it is current."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say whether the file is current")
    text = msgspec.json.format(msgspec.json.encode(schema()), indent=2) + b"\n"
    if not parser.parse_args().check:
        PLACE.write_bytes(text)
        return 0
    current = PLACE.exists() and PLACE.read_bytes() == text
    print(f"{PLACE.name} is {'current' if current else 'not current: run python docs/write_schema.py'}")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
