"""The items that a server publishes about: their ids, their titles, and what is public about them."""
