"""What it costs: from recorded releases to epsilon, and back from a budget to noise."""
