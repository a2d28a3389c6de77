"""What makes the page an app of the desktop: one instance, a window of its own, an entry in the system's menu."""
