/* Draft trees as `PythonDrafter` grows them (drafter.py), number by number. What a code, a cell and a row of the table
   mean is told in entries.py, acceptance_estimator.py and context_table.py; `native_drafter.py` passes their constants
   when it compiles this file. Contexts lie newest token first. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define ROW (1 + SUCCESSORS + FOLLOWERS)
#define MOST_EDGES (SUCCESSORS + FOLLOWERS + SUCCESSORS)

typedef struct {
    const int32_t *table; /* [vocabulary + 2 ** bits, ROW] */
    int64_t vocabulary, shift;
    const int32_t *anywhere; /* [SUCCESSORS] */
    const double *rates;
    double trust;
    int64_t reply;
    const int32_t *special; /* ascending */
    int64_t num_special;
    double temperature, gap_step, farthest, top_p; /* temperature 0: greedy */
    int64_t top_k;
    uint64_t seed;
    int64_t branches; /* in one place, at most */
    int32_t *context, *tokens, *parents, *depths, *cells; /* context: [1 + LONGEST], the others [rows] */
    double *chances;
} Drafter;

typedef struct {
    const int32_t *successors, *followers;
    int num_successors, successor_length, num_followers, follower_length;
} Entries;

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

static int filled(const int32_t *entries, int most) {
    int count = 0;
    while (count < most && entries[count]) count++;
    return count;
}

/* ContextTable.lookup */
static Entries look_up(const Drafter *d, const int32_t *context, int length) {
    const int32_t *rows[LONGEST];
    int32_t tags[LONGEST];
    uint64_t hash = 0;
    for (int i = 0; i < length; i++) {
        hash = ((hash ^ hash >> 29) + (uint64_t)context[i] + 1) * 0x9E3779B97F4A7C15u;
        rows[i] = d->table + ROW * (int64_t)(i ? d->vocabulary + (hash >> d->shift) : (uint64_t)context[0]);
        tags[i] = i ? (int32_t)(hash & 0x7FFFFFFF) | 1 : 0;
        __builtin_prefetch(rows[i]);
    }
    Entries found = {d->anywhere, NULL, 0, 0, 0, 0};
    for (int i = length - 1; i >= 0; i--) {
        if ((!i && (uint64_t)context[0] >= (uint64_t)d->vocabulary) || rows[i][0] != tags[i]) continue;
        const int32_t *successors = rows[i] + 1, *followers = successors + SUCCESSORS;
        if (!found.successor_length && *successors) found.successors = successors, found.successor_length = i + 1;
        if (!found.follower_length && *followers) found.followers = followers, found.follower_length = i + 1;
        if (found.successor_length && found.follower_length) break;
    }
    found.num_successors = filled(found.successors, SUCCESSORS);
    if (found.follower_length) found.num_followers = filled(found.followers, FOLLOWERS);
    return found;
}

static Coded *find(Codes *codes, int32_t token) {
    for (int i = 0; i < codes->count; i++)
        if (codes->of[i].token == token) return &codes->of[i];
    return NULL;
}

/* As a dict is written to: a token that is there keeps its place. */
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

/* SampledRank._survivors: how many of the successors the filters leave, and how far each is behind the likeliest */
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

/* alternatives.alternatives, of which those that are successors stay what they are */
static void add_alternatives(const Drafter *d, const int32_t *context, int length, int known_length, Codes *likely) {
    if (length <= LONGEST) return;
    Entries before = look_up(d, context + 1, LONGEST);
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

/* Sorted in: the likeliest first; of equal ones the one with the larger token. */
static int add_edge(const Drafter *d, Edge *edges, int count, double least, int32_t token, int32_t cell) {
    double rate = d->rates[cell];
    if (rate < least) return count;
    int at = count;
    for (; at && (edges[at - 1].rate < rate || (edges[at - 1].rate == rate && edges[at - 1].token < token)); at--)
        edges[at] = edges[at - 1];
    edges[at] = (Edge){rate, token, cell};
    return count + 1;
}

/* PythonDrafter.edges behind a context of up to 1 + LONGEST tokens, at least one */
static int edges_of(
    const Drafter *d, const int32_t *context, int length, int64_t position, double least, int is_current, Edge *edges
) {
    Entries known = look_up(d, context, length < LONGEST ? length : LONGEST);
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

/* Guesses of one token: how many; `chances`, `tokens` and `cells` hold them. */
int32_t find_edges(const Drafter *d, int32_t length, int64_t position, double least, int32_t is_current) {
    Edge edges[MOST_EDGES];
    int count = edges_of(d, d->context, length, position, least, is_current, edges);
    for (int i = 0; i < count; i++)
        d->chances[i] = edges[i].rate, d->tokens[i] = edges[i].token, d->cells[i] = edges[i].cell;
    return count;
}

/* A node has at most one place in the heap: with a bound on its children's reach, or with that of its next edge. */
typedef struct {
    double reach;
    int32_t pushed, node;
} Waiting;

typedef struct {
    int32_t context[1 + LONGEST];
    int length, place, count; /* count: of its edges; -1 before they are looked up */
    Edge edges[MOST_EDGES];
} Node;

static int comes_before(Waiting a, Waiting b) { return a.reach > b.reach || (a.reach == b.reach && a.pushed < b.pushed); }

static void push(Waiting *heap, int at, Waiting one) {
    for (; at && comes_before(one, heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = one;
}

static Waiting pop(Waiting *heap, int size) {
    Waiting best = heap[0], last = heap[size - 1];
    int at = 0, below;
    while ((below = 2 * at + 1) < size - 1) {
        if (below + 1 < size - 1 && comes_before(heap[below + 1], heap[below])) below++;
        if (!comes_before(heap[below], last)) break;
        heap[at] = heap[below], at = below;
    }
    heap[at] = last;
    return best;
}

static int is_special(const Drafter *d, int32_t token) {
    int64_t low = 0, high = d->num_special;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (d->special[middle] < token) low = middle + 1;
        else high = middle;
    }
    return low < d->num_special && d->special[low] == token;
}

static void add_node(const Drafter *d, Node *nodes, int added, int parent, Edge edge, double reach) {
    Node *node = &nodes[added], *above = &nodes[parent];
    node->length = above->length < LONGEST ? above->length + 1 : LONGEST;
    node->context[0] = edge.token;
    for (int i = 1; i < node->length; i++) node->context[i] = above->context[i - 1];
    node->place = 0, node->count = -1;
    d->tokens[added] = edge.token, d->parents[added] = parent, d->cells[added] = edge.cell;
    d->depths[added] = d->depths[parent] + 1, d->chances[added] = reach;
}

/* PythonDrafter.draft below the last of `length` tokens, of which `known` are in `context`: how many nodes there are;
   `chances` are their reaches. `depth` is at least 1. */
int32_t draft(const Drafter *d, int32_t known, int64_t length, int32_t rows, int32_t depth, double floor) {
    d->tokens[0] = d->context[0], d->parents[0] = -1, d->depths[0] = 0, d->cells[0] = -1, d->chances[0] = 1;
    Node *nodes = malloc((size_t)rows * (sizeof(Node) + sizeof(Waiting)));
    if (!nodes) return 1;
    Waiting *heap = (Waiting *)(nodes + rows);
    nodes[0].length = known, nodes[0].place = 0, nodes[0].count = -1;
    for (int i = 0; i < known; i++) nodes[0].context[i] = d->context[i];
    heap[0] = (Waiting){1, 0, 0};
    int32_t size = 1, waiting = 1, pushed = 0;
    while (waiting && size < rows && heap[0].reach >= floor) {
        Waiting best = pop(heap, waiting--);
        Node *node = &nodes[best.node];
        if (node->count < 0) {
            double least = floor / (d->chances[best.node] * d->trust); /* rarer ones are never added */
            int64_t position = length + d->depths[best.node];
            node->count = edges_of(d, node->context, node->length, position, least, !best.node, node->edges);
            if (node->count > d->branches) node->count = (int)d->branches;
        } else {
            Edge edge = node->edges[node->place++];
            add_node(d, nodes, size, best.node, edge, best.reach);
            if (d->depths[size] < depth && !is_special(d, edge.token))
                push(heap, waiting++, (Waiting){best.reach * SUREST, ++pushed, size});
            size++;
        }
        if (node->place < node->count) {
            double chance = node->edges[node->place].rate * d->trust;
            double reach = d->chances[best.node] * (chance < SUREST ? chance : SUREST);
            push(heap, waiting++, (Waiting){reach, ++pushed, best.node});
        }
    }
    free(nodes);
    return size;
}
