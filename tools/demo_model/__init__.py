"""How the demo model was made: data to conversations, conversations to token ids, token ids to a model."""
