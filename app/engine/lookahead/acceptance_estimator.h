/* AcceptanceEstimator (acceptance_estimator.py): all arrays [NUM_CELLS]. */

typedef struct {
    double *rates, *accepted, *tried;
    const double *priors;
    double trust, first_trust, expected, right;
} Estimator;

static void observe_best(Estimator *e, double expected, int is_right) {
    e->expected = TRUST_FADE * e->expected + expected;
    e->right = TRUST_FADE * e->right + is_right;
    double trust = (TRUST_PRIOR * e->first_trust + e->right) / (TRUST_PRIOR + e->expected);
    e->trust = trust < LEAST_TRUST ? LEAST_TRUST : trust > MOST_TRUST ? MOST_TRUST : trust;
}

static void observe_cell(Estimator *e, int32_t cell, int is_accepted) {
    double accepted = e->accepted[cell] + is_accepted, tried = e->tried[cell] + 1;
    if (tried > COUNTS_FADE) accepted /= 2, tried /= 2;
    e->accepted[cell] = accepted, e->tried[cell] = tried;
    e->rates[cell] = (PRIOR * e->priors[cell] + accepted) / (PRIOR + tried);
}
