"""Exact sums of contributions, in every form that a protocol adds up."""
