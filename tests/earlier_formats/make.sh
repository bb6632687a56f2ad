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

[ $# -gt 0 ] || set -- runs questions films
for part in "$@"; do
    $part
done
