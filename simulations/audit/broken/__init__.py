"""What is broken on purpose in runs that an audit must notice."""
