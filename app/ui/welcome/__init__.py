"""The empty chat: prompts to start with, and models to get while only the demo model is here."""
