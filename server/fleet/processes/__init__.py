"""The processes of a fleet's server, started, watched and ended."""
