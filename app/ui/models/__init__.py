"""The Models view: recommended models and whether they fit, search, downloads, and installed models."""
