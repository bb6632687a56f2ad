"""Pages that run in a browser: modules joined into one script, a policy by hashes, colours for all of them."""
