"""One device: its configuration, its policy, its own ledger, and the gate before every answer."""
