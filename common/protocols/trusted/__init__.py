"""A trusted aggregator sees each contribution for the time of a round."""
