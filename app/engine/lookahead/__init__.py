"""The parts of lookahead decoding. The step that uses them is in `decoders/lookahead_decoder.py`.

draft_tree.py, verification.py           the verification branch: a tree of guesses, and which of them are accepted
jacobi_window.py                         the lookahead branch: a window of guesses, refined from step to step
ngram_pool.py, context_table.py          which tokens may follow, and where this is stored
drafter.py, ranking.py                   how a tree of guesses is grown, the likeliest first
native_drafter.py, drafter.c             the same in C
acceptance_estimator.py, priors.py       how likely the model is to accept a guess
row_planner.py, step_time_curve.py       how many rows a step has, and how long it takes
draft_model_budget.py                    when a draft model is asked
model_statistics.py                      what is kept from reply to reply
"""
