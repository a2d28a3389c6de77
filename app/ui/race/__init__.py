"""The race's view: one prompt, two or three decoders, drawn against the clock."""
