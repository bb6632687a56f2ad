"""The server's log of the boards that it shows, and the witnesses that it asks to cosign it."""
