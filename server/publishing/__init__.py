"""Publishing boards to readers: signing, the mirror folder, and the gRPC service over it."""
