"""The audit: attacks on real runs, and broken runs that the attacks must notice."""
