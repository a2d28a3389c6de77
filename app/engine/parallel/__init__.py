"""Lookahead parallelism (Fu et al. 2024, section 4.3): several devices compute the branches of one step.

rank 0     session, text, pool, drafting     draft tree and window --+-- share 0 --> model --+--> verify, commit
rank 1     a copy of the model                                       +-- share 1 --> model --+
"""
