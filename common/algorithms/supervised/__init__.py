"""Tasks whose clients hold examples, features with a label, in place of ratings: their records and their list."""
