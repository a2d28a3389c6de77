"""What the maintainers run: the check command, long runs of kills and pages, and the report on a GPU."""
