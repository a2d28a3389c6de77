"""The Settings view: the model, the decoder and its cost, the appearance, and the data folder."""
