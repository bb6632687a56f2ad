"""The kernels as register-blocked loops over explicit vectors."""
