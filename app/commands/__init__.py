"""The command line beside the window: `generate` and `bench`. Importing this package is cheap."""
