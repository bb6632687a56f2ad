"""The kernels in numpy and scipy: slow, obvious, and what the compiled ones are tested against."""
