"""What a device computes from a board and ratings of its own."""
