"""Models without privacy to compare with: floors (local only, item mean or popularity), ceilings (ALS, EASE)."""
