"""How many people chose each item, privately: the floor that every private list must beat."""
