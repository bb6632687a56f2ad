"""Private matrix factorisation by noisy Langevin steps."""
