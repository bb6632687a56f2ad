"""Between the door and the round loop, which are two processes: who is there, what to ask, what was answered."""
