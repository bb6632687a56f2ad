"""What the holders of root keys do: draft a root, and sign it."""
