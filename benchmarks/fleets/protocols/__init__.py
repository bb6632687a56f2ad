"""What protocols cost, and that their sums are right when devices die."""
