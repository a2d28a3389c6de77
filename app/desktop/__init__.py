"""The page as a desktop app: a single instance, a window of its own, and an entry in the system's menu."""
