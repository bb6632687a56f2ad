"""The report of a run as one HTML page, finished or under way, from the files that the run writes."""
