"""Personal models on a shared representation, simulated: data, runtime, runs and what they are held against."""
