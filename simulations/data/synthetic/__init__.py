"""Made-up data: ratings with titles, and examples of people whose models share a representation."""
