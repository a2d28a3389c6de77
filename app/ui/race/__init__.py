"""The Race view: two or three decoders answer one prompt in turn, and are compared by speed and text."""
