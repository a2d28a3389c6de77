"""Downloads: each runs in a process, can be resumed at any byte, and is checked before its model counts as
installed."""
