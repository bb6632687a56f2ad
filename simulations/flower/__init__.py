"""Simulations on Flower: the apps of a deployment, with cohorts of simulated users as their nodes."""
