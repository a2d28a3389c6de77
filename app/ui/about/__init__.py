"""About, in the Settings view: versions, hardware, network contacts, and a self-check of the app's promises."""
