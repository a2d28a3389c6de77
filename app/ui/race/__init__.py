"""The Race view: one prompt, two or three decoders one after the other, compared by speed and text."""
