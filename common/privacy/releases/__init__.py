"""What leaves: releases that state, book and draw their own noise."""
