"""Experiments of Liu, Wang and Smola 2015: fast factorisation by stochastic gradients, with and without noise."""
