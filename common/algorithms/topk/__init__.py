"""Top-k lists: directions from normalised second moments, then item-based regression on what is left of noise."""
