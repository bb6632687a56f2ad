"""What is said in a round: questions, steps and answers, as bytes."""
