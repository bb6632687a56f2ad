"""fedboard."""
