"""Pool, draft tree, window, layout, verification and the decoder, each alone."""
