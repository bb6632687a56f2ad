"""A simulation from Python: ten lines from ratings to a certified board."""

import sys
from pathlib import Path

from fedboard.simulations.config import parse_config, read_config
from fedboard.simulations.simulate import simulate

if __name__ == "__main__":  # worker processes import this file
    config = parse_config(read_config(Path(__file__).with_name("simulate.toml")))
    result = simulate(config, Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example"))
    print(
        f"test RMSE {result.final['metrics']['test_rmse']:.4f} at epsilon {result.certificate.claim.epsilon:.3g}"
    )
    print(f"the certificate holds: {result.certificate.holds}; report: {result.report}")
