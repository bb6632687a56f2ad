"""The server's side of fedboard inside Flower apps of one's own."""
