"""One run of a simulation: its directory, its ledger, who takes part, and what it is held against."""
