"""AdaDPALS: alternating least squares by noisy sufficient statistics."""
