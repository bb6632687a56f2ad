"""Many runs as one question, and the frontier that comes out."""
