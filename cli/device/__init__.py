"""Commands of a person and her own device."""
