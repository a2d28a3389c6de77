"""Initial weights of the acceptance estimator, in log odds. The weights of a guess's two codes are added
(`acceptance_estimator.py`).

`labs/acceptance_priors.py` fitted them on replies of stories260K and the demo model; they were then adjusted
towards SmolLM2-135M's replies to the dev half of Spec-Bench. The weights of length 0 and of alternatives were
chosen by hand (docs/notes/2026-11-lookahead.md).
"""

BASE = -0.57

SUCCESSOR_WEIGHTS = (
    # Not among the successors; the context was known up to 0 (nothing), 1, 2, 3, 4 tokens.
    -0.62, -1.31, -2.35, -2.17, -2.18,
    # Two lines for each matched length, 0 to 4: gap classes 0 to 7 (distances of the other successors to
    # the best), then 8 to 15 (leads of the best).
    -1.20, -1.35, -1.50, -1.65, -1.80, -1.95, -2.10, -2.25,
    -1.20, -1.20, -1.20, -1.20, -1.20, -1.20, -1.20, -1.20,
    -0.87, -0.99, -1.12, -1.47, -1.59, -2.02, -1.58, -2.22,
    -0.52, -0.14, 0.03, 0.55, 0.64, 0.68, 0.97, 1.16,
    0.17, -0.32, -0.90, -1.01, -1.54, -1.73, -2.83, -3.15,
    0.54, 0.88, 1.10, 1.16, 1.73, 2.17, 3.77, 3.05,
    0.42, -0.53, -0.85, -1.01, -1.73, -1.88, -3.54, -3.32,
    1.24, 1.64, 1.58, 1.41, 2.65, 2.61, 4.14, 3.60,
    0.72, 0.04, -0.99, -1.46, -2.41, -2.18, -4.67, -4.16,
    1.37, 1.89, 2.30, 2.73, 3.11, 2.84, 4.18, 4.26,
    # Alternatives to the current token: a line for each length of the known context, 0 to 4; gap classes
    # 0 to 7.
    -0.12, -0.42, -0.72, -1.02, -1.32, -1.62, -1.92, -2.22,
    -0.81, -1.11, -1.41, -1.71, -2.01, -2.31, -2.61, -2.91,
    -1.85, -2.15, -2.45, -2.75, -3.05, -3.35, -3.65, -3.95,
    -1.67, -1.97, -2.27, -2.57, -2.87, -3.17, -3.47, -3.77,
    -1.68, -1.98, -2.28, -2.58, -2.88, -3.18, -3.48, -3.78,
)  # fmt: skip

# For documents, history and predictions, the mean of the weights of prompt and output.
_BORROWED = (
    0.74, -0.51, 0.05, -0.93,
    1.06, 0.26, -0.22, -0.47,
    0.24, 0.87, -0.09, 0.34,
    1.70, 1.07, 0.28, 0.04,
)  # fmt: skip

FOLLOWER_WEIGHTS = (
    # Not among the followers; the context was known up to 0 (nothing), 1, 2, 3, 4 tokens.
    -1.54, -1.47, -1.80, -1.86, -2.21,
    # A line for each length, 1 to 4: newest and seen again, newest, older and seen again, older.
    # window
    0.69, -0.03, -0.07, -0.45,
    0.79, 0.02, -0.40, -0.57,
    0.00, 0.00, 0.00, 0.00,
    0.00, 0.00, 0.00, 0.00,
    # prompt
    1.45, 0.10, -0.18, -1.32,
    2.39, 1.30, 0.19, -0.70,
    0.84, 2.27, 0.31, 0.43,
    2.53, 2.78, 0.68, 0.13,
    # output
    0.02, -1.13, 0.28, -0.53,
    -0.28, -0.77, -0.62, -0.23,
    -0.35, -0.53, -0.49, 0.24,
    0.88, -0.65, -0.12, -0.04,
    *_BORROWED,  # document
    *_BORROWED,  # history
    *_BORROWED,  # prediction
)  # fmt: skip
