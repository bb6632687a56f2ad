"""A device that takes part in training, as one process; without Flower where its server's door is enough."""
