"""The kernels in numpy: slow, obvious, and what the compiled ones are tested against."""
