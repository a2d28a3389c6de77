"""The live view: what every step of the reply does, as numbers beside the chat and as an X-ray."""
