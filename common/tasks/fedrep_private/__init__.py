"""Private FedRep: a shared representation by noised gradient steps, each user's own vector solved at home."""
