"""The only door that devices see."""
