"""Fast stochastic matrix factorisation, and differentially private sampling by Langevin dynamics."""
