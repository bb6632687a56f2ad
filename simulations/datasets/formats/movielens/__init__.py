"""The layouts in which MovieLens was published, one file each."""
