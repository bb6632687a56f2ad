"""How the site is built from the pages of this folder; ``python docs/build.py`` does it."""
