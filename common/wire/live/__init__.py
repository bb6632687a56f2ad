"""Live pages: one HTML page whose content comes as server-sent events, served to a browser on this machine."""
