"""What travels between the server and its clients, as bytes: strict to read, independent of the transport."""
