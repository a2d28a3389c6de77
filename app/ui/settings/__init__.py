"""The Settings view: its sections, from General to About."""
