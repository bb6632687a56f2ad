"""The service that devices come to over gRPC: they join, fetch work and hand in answers."""
