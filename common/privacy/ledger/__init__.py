"""Where it is written: the append-only record of a run, and the account of a population."""
