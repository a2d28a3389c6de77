"""The commands, such as `generate` and `serve`. Importing this package is cheap."""
