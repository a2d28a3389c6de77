"""Lookahead parallelism (Fu et al. 2024, section 4.3): the branches of one step are computed on several devices.

rank 0     session, text, pool, drafting     draft tree and window --+-- share 0 --> model --+--> verify, commit
rank 1     a copy of the model                                       +-- share 1 --> model --+
"""
