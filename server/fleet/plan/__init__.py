"""What a fleet's server is told and prepares before it starts."""
