"""Parts of `same_boards.py`."""
