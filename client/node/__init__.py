"""A device that takes part in training, as one process."""
