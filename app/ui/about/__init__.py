"""Privacy and About, in the Settings view: a self-check of the app's promises, contacts, versions, hardware."""
