"""What the maintainers run: the one check command, and the training of the demo model."""
