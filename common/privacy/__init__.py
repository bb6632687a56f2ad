"""Privacy: releases and their noise, the ledger that books them, accounting, weights and clipping."""
