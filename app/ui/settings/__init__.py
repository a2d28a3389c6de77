"""The Settings view: its sections, from General to Connect. Privacy and About are in app/ui/about."""
