"""How a device joins a fleet: what an invitation names, what the server hands over, what a device asks."""
