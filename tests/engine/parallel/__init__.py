"""Lookahead parallelism: shares, links, and whole groups of real processes."""
