"""Downloads: each runs in a process, resumes at any byte, and is checked before its model counts as installed."""
