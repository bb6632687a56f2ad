"""From scores and draws to bounds and p-values."""
