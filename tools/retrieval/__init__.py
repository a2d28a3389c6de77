"""How well passages are found: labelled questions, measured."""
