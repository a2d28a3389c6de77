"""Lookahead decoding. `lookahead_decoder.py` has the step, which uses most other files:

draft_tree.py, verification.py           the verification branch: a tree of guesses, and which of them are accepted
jacobi_window.py                         the lookahead branch: a window of guesses, refined from step to step
ngram_pool.py, context_table.py          which tokens may follow, and where this is stored
drafter.py, ranking.py                   how a tree of guesses is grown, the likeliest first
native_drafter.py, drafter.c             the same in C
acceptance_estimator.py, priors.py       how likely the model is to accept a guess
row_planner.py, step_time_curve.py       how many rows a step has, and how long it takes
draft_model_budget.py                    when a draft model is asked
model_statistics.py                      what is kept from reply to reply
plain.py, jacobi.py, prompt_lookup.py    the other decoders
"""

from app.engine.lookahead.lookahead_decoder import lookahead, make_lookahead
from app.engine.lookahead.model_statistics import ModelStatistics

__all__ = ["ModelStatistics", "lookahead", "make_lookahead"]
