"""The command line beside the window, such as `generate` and `serve`. Importing this package is cheap."""
