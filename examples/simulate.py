"""A simulation from Python: from ratings to a certified board and somebody's recommendations."""

import sys
from pathlib import Path

import fedboard

if __name__ == "__main__":  # worker processes import this file
    out = sys.argv[1] if len(sys.argv) > 1 else "runs/example"
    run = fedboard.simulate(config=Path(__file__).with_name("simulate.toml"), out=out)
    print(f"test RMSE {run.metrics['test_rmse']:.4f} at epsilon {run.certificate.claim.epsilon:.3g}")
    print(f"the certificate holds: {run.verify().holds}; report: {run.report}")
    for found in fedboard.recommend({"1": 5.0, "2": 1.0}, run.board, k=3):
        print(f"{found.score:.1f}  {found.title}")
