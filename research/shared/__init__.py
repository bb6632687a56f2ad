"""What an experiment is, and what it leaves behind."""
