"""One number per item and one per person: the floor that every private recommender of ratings must beat."""
