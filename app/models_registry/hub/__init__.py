"""The Hugging Face hub: what it is asked, what it answers, and what its refusals mean."""
