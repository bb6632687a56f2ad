"""The board log: what everybody was shown, in a Merkle tree that only grows, as witnesses cosign it (C2SP tlog)."""
