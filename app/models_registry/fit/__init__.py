"""Whether a model fits this machine, and the models that the app recommends."""
