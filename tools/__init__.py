"""What the maintainers run: the check command, long runs of faults, and measurements."""
