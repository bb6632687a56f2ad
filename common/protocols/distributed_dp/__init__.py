"""A secure sum in which every client adds a share of the noise."""
