"""``fedboard tune``: on data that need no protection, or on private ratings and paid for."""
