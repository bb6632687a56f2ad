"""The board page: one HTML file that recommends from a board, and checks it, in a browser, with nothing sent."""
