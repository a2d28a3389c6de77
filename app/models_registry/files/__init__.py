"""What a model's files must be, and what they tell, found out without torch."""
