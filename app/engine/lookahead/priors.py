"""Weights that edge chances start from: log odds that add up, fitted by `tools/edge_chances.py`.

Fitted on every candidate behind an accepted token while stories260K and the demo model wrote greedy replies to
prompts that no benchmark uses. What they say is general: the likeliest successor of a context of three tokens whose
lead was clear is right far more often than a token that was seen once behind a single token.
"""

BASE = -0.59

SAID_WEIGHTS = (
    # Not among the successors; the context was known up to 0 (nothing), 1, 2, 3, 4 tokens.
    0.00, -1.79, -2.42, -2.29, -2.15,
    # Two lines for each matched length, 1 to 4: gap classes 0 to 7 of those behind the best, then 8 to 15
    # of the best by its lead.
    -0.36, -1.01, -1.41, -1.55, -1.79, -2.17, -1.73, -1.96,
    -0.31, -0.16, 0.37, 0.97, 1.19, 1.71, 0.89, 1.45,
    0.17, -0.10, -1.09, -1.13, -2.01, -2.00, -3.29, -3.78,
    0.80, 0.79, 1.04, 1.68, 2.59, 2.85, 4.09, 3.14,
    0.57, -0.58, -1.20, -1.89, -1.92, -2.04, -3.65, -3.66,
    0.98, 2.22, 1.88, 1.62, 2.64, 2.70, 4.45, 3.59,
    0.70, -0.57, -1.75, -1.96, -2.84, -3.81, -4.97, -4.53,
    0.81, 1.88, 2.27, 2.54, 3.83, 4.36, 4.82, 4.24,
)

SEEN_WEIGHTS = (
    # Not among the followers; the context was known up to 0 (nothing), 1, 2, 3, 4 tokens.
    -0.98, -1.24, -1.69, -1.58, -2.06,
    # A line for each length, 1 to 4: newest and seen again, newest, older and seen again, older.
    # window
    0.69, -0.03, -0.07, -0.45,
    0.79, 0.02, -0.40, -0.57,
    0.00, 0.00, 0.00, 0.00,
    0.00, 0.00, 0.00, 0.00,
    # prompt
    1.35, 0.44, 0.88, -0.37,
    3.33, 1.33, 0.00, -1.53,
    -0.59, 1.74, 0.00, 1.43,
    0.00, 1.41, 0.00, -0.93,
    # output
    0.11, -0.20, -0.38, -0.81,
    0.56, 0.40, -0.64, -0.82,
    0.02, -0.34, -0.79, 0.01,
    2.01, 0.29, -0.22, -0.12,
    # document
    0.73, 0.12, 0.25, -0.59,
    1.94, 0.87, -0.32, -1.17,
    -0.29, 0.70, -0.39, 0.72,
    1.01, 0.85, -0.11, -0.53,
    # history
    0.73, 0.12, 0.25, -0.59,
    1.94, 0.87, -0.32, -1.17,
    -0.29, 0.70, -0.39, 0.72,
    1.01, 0.85, -0.11, -0.53,
)
