"""One reader for each format of rating files."""
