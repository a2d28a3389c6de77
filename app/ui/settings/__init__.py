"""The view of settings: the model, the decoder and what it costs, how the app looks, where its files are."""
