"""One-off private questions to a fleet: what each user answers, and how the answer leaves."""
