"""The models on this machine: found, judged by their files, deleted."""
