"""What the implementations of the kernels share."""
