"""The attacks of an audit, each with a number that says how far it came."""
