/* The work for which a device waits between two steps, with exactly the results of `PythonDrafter` (drafter.py): judge
   guesses, store the model's successors, grow a draft tree. context_entries.py, acceptance_estimator.py and
   context_table.py explain codes, cells and rows of the table; `native_drafter.py` passes their constants when it
   compiles this file. */

#include "context_table.h"
#include "acceptance_estimator.h"

typedef struct {
    Table table;
    Estimator estimator;
    int64_t reply;
    const int32_t *special; /* ascending */
    int64_t num_special;
    double temperature, gap_step, farthest, top_p; /* temperature 0: greedy */
    int64_t top_k;
    uint64_t seed;
    int64_t branches;       /* maximum children of a node */
    const int32_t *context; /* the last 1 + LONGEST tokens or all, newest first */
    int32_t *tokens, *parents, *depths, *cells; /* [rows] */
    double *chances;
} Drafter;

#include "edges.h"

/* Guesses one token: writes the guesses to `chances`, `tokens` and `cells`, and returns their number. */
int32_t find_edges(const Drafter *d, int32_t length, int64_t position, double least, int32_t is_current) {
    Edge edges[MOST_EDGES];
    int count = edges_of(d, d->context, length, position, least, is_current, edges);
    for (int i = 0; i < count; i++)
        d->chances[i] = edges[i].rate, d->tokens[i] = edges[i].token, d->cells[i] = edges[i].cell;
    return count;
}

/* PythonDrafter.observe after a text of `length` tokens, of which the last `known` are in `context`. */
void observe(Drafter *d, int32_t known, int64_t length, const int32_t *accepted, int64_t count) {
    int32_t line[1 + LONGEST];
    memcpy(line, d->context, (size_t)known * sizeof *line);
    for (int64_t i = 0; i < count; i++) {
        Edge edges[MOST_EDGES];
        int found = edges_of(d, line, known, length + i, 0, !i, edges);
        if (found) observe_best(&d->estimator, edges[0].rate, edges[0].token == accepted[i]);
        for (int j = 0; j < found; j++) observe_cell(&d->estimator, edges[j].cell, edges[j].token == accepted[i]);
        if (known < 1 + LONGEST) known++;
        memmove(line + 1, line, (size_t)(known - 1) * sizeof *line);
        line[0] = accepted[i];
    }
}

/* PythonDrafter.learn_successors */
void learn_successors(
    const Drafter *d, const int64_t *contexts, const int64_t *ids, const float *logits, int64_t count, int64_t width
) {
    file_successors(&d->table, contexts, ids, logits, count, width);
}

/* A node is in the heap at most once: with a bound on its children's reach, or with the reach of its next edge. */
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

/* PythonDrafter.draft after a text of `length` tokens, of which the last `known` are in `context`. Returns the number of
   nodes; `chances` are their reaches. `depth` is at least 1. */
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
            double least = floor / (d->chances[best.node] * d->estimator.trust); /* less likely edges are never added */
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
            double chance = node->edges[node->place].rate * d->estimator.trust;
            double reach = d->chances[best.node] * (chance < SUREST ? chance : SUREST);
            push(heap, waiting++, (Waiting){reach, ++pushed, best.node});
        }
    }
    free(nodes);
    return size;
}
