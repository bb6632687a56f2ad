"""How many people a private recommender needs, on made-up people; and how these are fitted to real ones."""
