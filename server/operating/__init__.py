"""What whoever operates a server sees of it: health, metrics, how its runs fare."""
