"""Numbers of a run for the trackers that people have (MLflow, Weights & Biases, TensorBoard)."""
