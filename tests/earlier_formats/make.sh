#!/usr/bin/env bash
# Writes the archives of this folder with an EARLIER release: run it where that release is installed, beside its sources.
# Usage: make.sh SOURCES TO [PART...], such as: make.sh ~/fedboard-at-ee79f97 tests/earlier_formats
set -euo pipefail
sources=$(cd "$1" && pwd) # of the earlier release: its quickstart's settings of a fleet
mkdir -p "$2"
to=$(cd "$2" && pwd)
shift 2
work=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"

people=(--set data.synthetic.n_users=120 --set data.synthetic.n_items=24 --set data.synthetic.mean_ratings_per_user=12)
run() { # NAME OPTIONS...: one simulated run in runs/NAME
    fedboard simulate "${people[@]}" --rank 2 --no-baselines --out "runs/$1" "${@:2}"
}

pack() { # NAME: no report (drawn anew by every release), no private key, no log, nothing of Flower's own
    find "$1" \( -name report.html -o -path '*/state/flower/*' \) -delete
    find "$1" \( -name '*.key' -o -name '*.log' -o -name '*.lock' -o -name '*.db' -o -name '*.db-*' \) -delete
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cJf "$to/$1.tar.xz" "$1"
    find "$1" -type f | sort
}

runs() {
    # Every algorithm, once with everything that a run leaves behind.
    for algorithm in residual adadpals adadpals-clipped adadpals-overcount dpals-uniform dpals-tail; do
        run "$algorithm" --algorithm "$algorithm" --rounds 1
    done
    for algorithm in adadpsgd adadpsgd-clipped adadpsgd-overcount dpsgd-uniform dpsgd-tail langevin; do
        run "$algorithm" --algorithm "$algorithm" --set settings.steps=2
    done
    implicit=(--feedback implicit --set split.held_out_users=0.05 --set 'split.positive_above=2.5')
    run residual-implicit --algorithm residual --rounds 1 "${implicit[@]}"
    run adadpals-implicit --algorithm adadpals --rounds 1 "${implicit[@]}"

    # What else shows in a certificate: protocols, participation, adjacency, levels of one's own, an account of a population.
    for protocol in secure-sum distributed-dp two-server local; do
        run "residual-$protocol" --algorithm residual --rounds 1 --protocol "$protocol" --clients 20
    done
    run residual-poisson --algorithm residual --rounds 1 --participation poisson:0.5
    run residual-fixed-size --algorithm residual --rounds 1 --participation fixed-size:60
    run residual-cohorts --algorithm residual --rounds 2 --participation shuffled-cohorts:2
    run residual-replace --algorithm residual --rounds 1 --adjacency replace
    run residual-personal --algorithm residual --rounds 1 --set 'privacy.personal=[{epsilon=1.0, share=0.5}]'
    fedboard ledger create-population runs/population.ledger --epsilon 12 --delta 1e-5
    run residual-population-1 --algorithm residual --rounds 1 --population runs/population.ledger
    run residual-population-2 --algorithm residual --rounds 1 --population runs/population.ledger --seed 1
    pack runs
}

questions() {
    # Questions: what they release was not planned beforehand.
    ask() { fedboard ask "$1" --data synthetic --noise seeded --seed 1 --workers 1 "${@:2}"; }
    mkdir questions
    ask mean --epsilon 0.5 --mechanism pure --ledger questions/pure.ledger --budget 4 --certificate questions/pure-1.json
    ask quantile --epsilon 0.5 --mechanism pure --ledger questions/pure.ledger --certificate questions/pure-2.json
    ask mean --epsilon 0.5 --mechanism gaussian --ledger questions/gaussian.ledger --budget 4 \
        --certificate questions/gaussian-1.json
    ask mean --of counts --epsilon 0.5 --mechanism gaussian --ledger questions/gaussian.ledger \
        --certificate questions/gaussian-2.json
    pack questions
}

films() {
    # A fleet as processes over TLS: job, states, device ledgers, a rating store, signed manifests.
    mkdir fleet
    sed -e 's/PEOPLE = .*/PEOPLE = {"gateway-a": (0, 60), "gateway-b": (60, 119), "ann": (119, 120)}/' \
        -e 's/synthetic = .*/synthetic = {"n_users": 120, "n_items": 60, "mean_ratings_per_user": 12.0}/' \
        "$sources/examples/fleet/people.py" >fleet/people.py
    sed -e 's/settings = .*/settings = { rounds = 1, rank = 2 }/' \
        -e 's/300 made-up films/60 made-up films/' "$sources/examples/fleet/fleet.toml" >fleet/fleet.toml
    cp "$sources/examples/fleet/quickstart.sh" fleet/
    bash fleet/quickstart.sh "$work/films" 18443
    pack films
}

flat() {
    # Before a job and an algorithm's settings had sections: configurations, boards and jobs of then, two runs that were
    # interrupted after a round and the digests that they have when nothing interrupts them.
    for algorithm in residual adadpals adadpsgd dpsgd-tail langevin; do
        steps=(--set settings.steps=2)
        case $algorithm in residual | adadpals) steps=(--rounds 2) ;; esac
        run "$algorithm" --algorithm "$algorithm" "${steps[@]}"
    done
    implicit=(--feedback implicit --set split.held_out_users=0.05 --set 'split.positive_above=2.5')
    run adadpals-implicit --algorithm adadpals --rounds 1 "${implicit[@]}"
    run residual-poisson --algorithm residual --rounds 1 --participation poisson:0.5
    run residual-secure-sum --algorithm residual --rounds 1 --protocol secure-sum --clients 20
    mkdir flat
    mv runs flat/runs
    python - "$sources" flat <<'END'
import json, sys
from pathlib import Path
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Budget
from fedboard.common.privacy.ledger.population import Population
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.preparing import prepare
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.simulations.config import parse_config
from fedboard.simulations.simulate import Silent, simulate

sources, folder = Path(sys.argv[1]), Path(sys.argv[2])
PEOPLE = {"n_users": 120, "n_items": 24, "mean_ratings_per_user": 12}
QUIET = {"kernels": "numpy", "baselines": False, "evaluate_rounds": False}

class Interrupted(Silent):
    def round_finished(self, line):
        raise KeyboardInterrupt

whole = {}
for name, settings in (("residual", {"rank": 2, "rounds": 2}), ("adadpsgd", {"rank": 2, "steps": 3})):
    raw = {"algorithm": name, "data": {"synthetic": PEOPLE}, "settings": settings, "run": QUIET}
    config = parse_config(raw)
    whole[name] = simulate(config, folder / "whole" / name, report=False).board.digest
    try:
        simulate(config, folder / "interrupted" / name, report=False, listener=Interrupted())
    except KeyboardInterrupt:
        pass
(folder / "interrupted" / "whole.json").write_text(json.dumps(whole, indent=1))

jobs = folder / "jobs"
jobs.mkdir()
save, kept = Job.save, {}
def keep(job, path):
    save(job, path)
    (jobs / f"{kept['name']}.json").write_bytes(Path(path).read_bytes())
Job.save = keep
Population.create(folder / "people.ledger", Budget(epsilon=20.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)).close()
SIMULATED = {
    "poisson": {"privacy": {"participation": {"kind": "poisson", "probability": 0.5},
                            "population": str(folder / "people.ledger")}},
    "fixed-size": {"privacy": {"adjacency": "replace", "participation": {"kind": "fixed-size", "size": 60}}},
    "shuffled-cohorts": {"privacy": {"adjacency": "replace",
                                     "participation": {"kind": "shuffled-cohorts", "cohorts": 2}}},
    "secure-sum": {"run": {"protocol": "secure-sum", "protocol_settings": {"dropout": 0.1}, "clients": 20}},
    "dense": {"run": {"wire": "dense"}, "seed": 7},
}
for name, more in SIMULATED.items():
    kept["name"] = name
    run = {**QUIET, "runtime": "in-process", "nodes": 2, **more.get("run", {})}
    raw = {**more, "data": {"synthetic": PEOPLE}, "settings": {"rank": 2, "rounds": 1}, "run": run}
    simulate(parse_config(raw), folder / "whole" / f"job-{name}", report=False)

home = folder / "fleet"
text = (sources / "examples" / "fleet" / "fleet.toml").read_text()
for device in ("gateway-a", "gateway-b", "ann"):
    make_node_key(home / device / "node.key", name=device)
(home / "catalogue.csv").write_text("item,title\n" + "".join(f"{n},Film {n}\n" for n in range(24)))
HELPER = """name = "two-server"
step_seconds = 15.0
settings = { survivors = 2 }
[protocol.helper]
address = "localhost:9443"
authority = "keys/helper.pem"
identity = "%s"
token = "keys/helper.token" """ % ("0" * 64)
FLEETS = {
    "plain": text,
    "two-server": text.replace('name = "trusted"', HELPER).replace("expected_nodes = 3", "expected_nodes = 3\nlongest_deadline_seconds = 100.0"),
}
for name, written in FLEETS.items():
    kept["name"] = f"fleet-{name}"
    (home / f"{name}.toml").write_text(written.replace('state = "state"', f'state = "state-{name}"'))
    prepare(read_settings(home / f"{name}.toml"))
END
    rm -r flat/whole
    pack flat
}

[ $# -gt 0 ] || set -- runs questions films
for part in "$@"; do
    $part
done
