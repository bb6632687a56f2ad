"""AdaDPSGD: noisy gradient steps on the item vectors."""
