"""A record for the registry of deployments that OpenDP keeps with NIST: ``opendp/deployments-registry-data``.

What follows from the certificate is filled in by code and can be checked again; what only people can say comes from
``Deployment``. The fields are those of ``schemas/deployments-schema.yaml`` there (tier 3), as of July 2026.
"""
