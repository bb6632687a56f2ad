"""The device's side: its own ratings and a board in, recommendations out. Nothing here sends anything."""
