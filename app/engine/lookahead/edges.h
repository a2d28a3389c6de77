/* Guesses of the next token, as `PythonDrafter.edges` has them: likeliest first. */

#include <math.h>

#define MOST_EDGES (SUCCESSORS + FOLLOWERS + SUCCESSORS)

typedef struct {
    int32_t token, code;
} Coded;

typedef struct {
    Coded of[2 * SUCCESSORS];
    int count;
} Codes;

typedef struct {
    double rate;
    int32_t token, cell;
} Edge;

static Coded *find(Codes *codes, int32_t token) {
    for (int i = 0; i < codes->count; i++)
        if (codes->of[i].token == token) return &codes->of[i];
    return NULL;
}

/* Sets the code of a token, as in a dict: a token that is there already keeps its place. */
static void put(Codes *codes, int32_t token, int32_t code) {
    Coded *known = find(codes, token);
    if (known) known->code = code;
    else codes->of[codes->count++] = (Coded){token, code};
}

static int gap_class(double gap) {
    static const double gaps[] = {GAPS};
    int found = 0;
    while (found < (int)(sizeof gaps / sizeof *gaps) && gaps[found] <= gap) found++;
    return found;
}

static int32_t token_of(int32_t successor) { return (successor >> 10) - 1; }
static int32_t gap_of(int32_t successor) { return successor & MOST_GAP; }

/* sampling.noise_key and noise_of */
static uint64_t finalised(uint64_t value) {
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
    value = (value ^ value >> 27) * 0x94D049BB133111EBu;
    return value ^ value >> 31;
}

static uint64_t mixed(uint64_t value) { return finalised(value + 0x9E3779B97F4A7C15u); }

static double noise_of(uint64_t key, int32_t token) {
    uint64_t bits = finalised((key + (uint64_t)token) * 0x9E3779B97F4A7C15u);
    return -log(-log((double)(bits >> 12) * 0x1p-52 + 0x1p-53));
}

/* SampledRank._survivors: how many successors the filters leave, and each one's distance to the best logit */
static int survivors(const Drafter *d, const Entries *known, double *behind) {
    int count = known->num_successors, kept = count;
    for (int i = 0; i < count; i++) behind[i] = i ? gap_of(known->successors[i]) * d->gap_step : 0;
    if (d->top_k && d->top_k < kept) kept = (int)d->top_k;
    while (kept && behind[kept - 1] > d->farthest) kept--;
    if (d->top_p < 1) {
        double sums[SUCCESSORS], sum = 0;
        for (int i = 0; i < kept; i++) sums[i] = sum += exp(-behind[i]);
        int within = 0;
        while (within < kept && sums[within] <= d->top_p * sum) within++;
        if (within < kept) kept = within + 1;
    }
    return kept > 1 ? kept : 1;
}

/* ranking.SampledRank */
static void rank_sampled(const Drafter *d, const Entries *known, int64_t position, int32_t first, Codes *likely) {
    double behind[SUCCESSORS], scores[SUCCESSORS];
    int32_t tokens[SUCCESSORS];
    int count = survivors(d, known, behind);
    if (count == 1) {
        put(likely, token_of(known->successors[0]), first + 2 * LEADS - 1);
        return;
    }
    uint64_t key = mixed(mixed(d->seed) ^ (uint64_t)position);
    for (int i = 0; i < count; i++) {
        int32_t token = token_of(known->successors[i]);
        double score = noise_of(key, token) - behind[i];
        int at = i;
        for (; at && (scores[at - 1] < score || (scores[at - 1] == score && tokens[at - 1] < token)); at--)
            scores[at] = scores[at - 1], tokens[at] = tokens[at - 1];
        scores[at] = score, tokens[at] = token;
    }
    for (int i = 0; i < count; i++) {
        int gap = gap_class((scores[0] - scores[i ? i : 1]) * d->temperature);
        put(likely, tokens[i], first + (i ? gap : LEADS + gap));
    }
}

/* ranking.likeliest_first */
static void rank_greedy(const Entries *known, int32_t first, Codes *likely) {
    for (int i = 0; i < known->num_successors; i++) {
        int gap = gap_class(gap_of(known->successors[i]) * GAP_STEP);
        put(likely, token_of(known->successors[i]), first + (i ? gap : LEADS + gap));
    }
}

/* drafter.alternatives; tokens that are successors already keep their code */
static void add_alternatives(const Drafter *d, const int32_t *context, int length, int known_length, Codes *likely) {
    if (length <= LONGEST) return;
    Entries before = look_up(&d->table, context + 1, LONGEST);
    if (before.successor_length < LONGEST) return;
    Codes found = {.count = 0};
    for (int i = 0; i < before.num_successors; i++) {
        int gap = gap_class(gap_of(before.successors[i]) * GAP_STEP);
        put(&found, token_of(before.successors[i]), gap);
    }
    put(&found, token_of(before.successors[0]), 0);
    for (int i = 0; i < found.count; i++) {
        Coded one = found.of[i];
        if (one.token != context[0] && !find(likely, one.token))
            put(likely, one.token, FIRST_ALTERNATIVE_CODE + known_length * LEADS + one.code);
    }
}

static Codes follower_codes(const Drafter *d, const Entries *known) {
    Codes codes = {.count = 0};
    int32_t first = FIRST_CODE + (known->follower_length - 1) * RANKS;
    for (int i = 0; i < known->num_followers; i++) {
        int32_t packed = known->followers[i], source = packed >> 8 & 7;
        int is_given = source == DOCUMENT || source == PREDICTION;
        if ((packed & (NUM_REPLIES - 1)) != d->reply && !is_given) source = HISTORY;
        int rank = (i ? 2 : 0) + ((packed & SEEN_BITS) == SEEN_ONCE);
        put(&codes, (packed >> 11) - 1, first + source * LONGEST * RANKS + rank);
    }
    return codes;
}

/* Inserts an edge in order: the likeliest first; of equally likely edges, the larger token first. */
static int add_edge(const Drafter *d, Edge *edges, int count, double least, int32_t token, int32_t cell) {
    double rate = d->estimator.rates[cell];
    if (rate < least) return count;
    int at = count;
    for (; at && (edges[at - 1].rate < rate || (edges[at - 1].rate == rate && edges[at - 1].token < token)); at--)
        edges[at] = edges[at - 1];
    edges[at] = (Edge){rate, token, cell};
    return count + 1;
}

/* PythonDrafter.edges after a context of 1 to 1 + LONGEST tokens */
static int edges_of(
    const Drafter *d, const int32_t *context, int length, int64_t position, double least, int is_current, Edge *edges
) {
    Entries known = look_up(&d->table, context, length < LONGEST ? length : LONGEST);
    Codes likely = {.count = 0}, seen = follower_codes(d, &known);
    int32_t first = FIRST_CODE + known.successor_length * GAP_CLASSES;
    if (known.num_successors && d->temperature > 0) rank_sampled(d, &known, position, first, &likely);
    else rank_greedy(&known, first, &likely);
    if (is_current) add_alternatives(d, context, length, known.successor_length, &likely);
    int count = 0;
    for (int i = 0; i < likely.count; i++) {
        Coded *also = find(&seen, likely.of[i].token);
        int32_t cell = likely.of[i].code * NUM_FOLLOWER_CODES + (also ? also->code : known.follower_length);
        if (also) also->token = -1; /* counted here */
        count = add_edge(d, edges, count, least, likely.of[i].token, cell);
    }
    for (int i = 0; i < seen.count; i++) {
        int32_t cell = known.successor_length * NUM_FOLLOWER_CODES + seen.of[i].code;
        if (seen.of[i].token >= 0) count = add_edge(d, edges, count, least, seen.of[i].token, cell);
    }
    return count;
}
