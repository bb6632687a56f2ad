"""Ratings of any number of users, read a block of them at a time; and the sums over a span of them."""
