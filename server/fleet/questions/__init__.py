"""Questions to a fleet: written down and reserved before anybody is asked, each a run of its own."""
