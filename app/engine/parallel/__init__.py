"""Lookahead parallelism (Fu et al. 2024, section 4.3): several devices compute the branches of one step."""
