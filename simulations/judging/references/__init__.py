"""Models without privacy that runs are held against: which there are, and fitting them to a stream."""
