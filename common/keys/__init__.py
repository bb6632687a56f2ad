"""Keys in files: who may read them, that none is lost, that each is of the kind it should be."""
