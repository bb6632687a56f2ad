"""How boards reach their readers: signed manifests, encodings of a board file, and the protocol of the service."""
