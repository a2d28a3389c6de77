/* Attention over a block.

   A row sees the prefix and then the rows of the block that `visible` marks. The keys that it sees are divided into
   tiles of TILE keys, and the tiles into spans of SPAN tiles: each span is summed from zero, tile by tile, and the
   spans are merged in order. Whole tiles of the prefix are the same for all rows and are read once for many rows; the
   last tiles are gathered for each row. The result is bitwise identical whether a tile is shared or gathered.

   A score is summed over the dimensions in their order, LANES keys at a time. That needs transposed keys: a tile is
   transposed once in memory for more than QUERIES queries, otherwise in registers. */

#define TILE 32
#define SPAN 8
#define CHUNK 96 /* maximum number of queries of a job */
/* Maximum number of queries, and of elements of a value, whose sums are in registers at the same time. */
#if LANES == 16
#define QUERIES 4
#define WIDE 64
#else
#define QUERIES 3
#define WIDE 32
#endif

/* The running softmax of one query: its largest score and its sum of weights. */
typedef struct {
    float most, weight;
} Sums;

static inline void begin(Sums *sums, float *values, int64_t size) {
    *sums = (Sums){-INFINITY, 0};
    memset(values, 0, size * sizeof(float));
}

/* A query, its running softmax and its weighted sum of values. */
typedef struct {
    const float *query;
    Sums *sums;
    float *out;
} Query;

/* The keys and values of a tile; entries beyond `count` repeat the last one. */
typedef struct {
    const float *keys[TILE], *values[TILE];
    int64_t count, size, value_size;
    float scale;
} Tile;

/* Load four dimensions, from `d` on, of LANES keys: one vector over the keys for each dimension. */
static inline void transpose(const float *const *keys, int64_t d, vn *transposed) {
#if defined(__AVX2__)
    quads r[4];
    for (int i = 0; i < 4; i++) r[i] = quads_of(keys + i, d);
    quads a = OP(unpacklo_ps)(r[0], r[1]), b = OP(unpacklo_ps)(r[2], r[3]);
    quads e = OP(unpackhi_ps)(r[0], r[1]), f = OP(unpackhi_ps)(r[2], r[3]);
    transposed[0] = (vn)OP(shuffle_ps)(a, b, 0x44), transposed[1] = (vn)OP(shuffle_ps)(a, b, 0xee);
    transposed[2] = (vn)OP(shuffle_ps)(e, f, 0x44), transposed[3] = (vn)OP(shuffle_ps)(e, f, 0xee);
#else
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < LANES; j++) transposed[i][j] = keys[j][d + i];
#endif
}

/* Transpose the tile's keys to [size, TILE]. */
static void transpose_tile(const float *const *keys, int64_t size, float *transposed) {
    for (int j = 0; j < TILE; j += LANES)
        for (int64_t d = 0; d < size; d += 4) {
            vn four[4];
            transpose(keys + j, d, four);
            for (int i = 0; i < 4; i++) store_n(transposed + (d + i) * TILE + j, four[i]);
        }
}

/* Compute the scores of `count` queries with a tile's keys, each summed over the dimensions in their order. If
   `transposed` is NULL, the keys are transposed in registers. */
static inline __attribute__((always_inline)) void score(
    const Query *queries, const float *const *keys, const float *transposed, int64_t size, float scale,
    float (*scores)[TILE], const int count
) {
    vn s[QUERIES][TILE / LANES] = {0};
    if (transposed)
        for (int64_t d = 0; d < size; d++)
            for (int j = 0; j < TILE / LANES; j++) {
                vn some = load_n(transposed + d * TILE + j * LANES);
                for (int q = 0; q < count; q++) s[q][j] = fused_n(all_n(queries[q].query[d]), some, s[q][j]);
            }
    else
        for (int j = 0; j < TILE / LANES; j++)
            for (int64_t d = 0; d < size; d += 4) {
                vn four[4];
                for (int i = 0; i < LANES && d % 16 == 0; i++)
                    __builtin_prefetch(keys[j * LANES + i] + TILE * size + d); /* usually the keys of the next tile */
                transpose(keys + j * LANES, d, four);
                for (int i = 0; i < 4; i++)
                    for (int q = 0; q < count; q++)
                        s[q][j] = fused_n(all_n(queries[q].query[d + i]), four[i], s[q][j]);
            }
    for (int q = 0; q < count; q++)
        for (int j = 0; j < TILE / LANES; j++) store_n(scores[q] + j * LANES, s[q][j] * scale);
}

/* Replace a query's scores by weights and update its sums; return the factor that scales its earlier sum of values. */
static inline float softmax(Sums *sums, float *scores, int64_t count) {
    vn most = load_n(scores), sum = {0};
    for (int j = LANES; j < TILE; j += LANES) most = (vn)LARGER(load_n(scores + j), most, vni);
    float before = sums->most, largest = largest_of_n(most); /* repeated keys do not change the maximum */
    if (largest < before) largest = before;
    for (int j = 0; j < TILE; j += LANES) store_n(scores + j, exp_of_n(load_n(scores + j) - largest));
    for (int64_t j = count; j < TILE; j++) scores[j] = 0;
    for (int j = 0; j < TILE; j += LANES) sum += load_n(scores + j);
    float fade = before == largest ? 1 : before == -INFINITY ? 0 : exp_of(all(before - largest))[0];
    sums->weight = sums->weight * fade + sum_of_n(sum);
    sums->most = largest;
    return fade;
}

/* Add a tile's values, weighted, to the sums of `count` queries, key by key: `vectors` vectors of LANES elements. */
static inline __attribute__((always_inline)) void add_values(
    const Query *queries, float (*weights)[TILE], const float *fades, const Tile *tile, int64_t from,
    const int count, const int vectors
) {
    vn a[QUERIES][WIDE / LANES];
    for (int q = 0; q < count; q++)
        for (int i = 0; i < vectors; i++) a[q][i] = load_n(queries[q].out + from + i * LANES) * fades[q];
    for (int64_t j = 0; j < tile->count; j++)
        for (int i = 0; i < vectors; i++) {
            vn value = load_n(tile->values[j] + from + i * LANES);
            for (int q = 0; q < count; q++) a[q][i] = fused_n(all_n(weights[q][j]), value, a[q][i]);
        }
    for (int q = 0; q < count; q++)
        for (int i = 0; i < vectors; i++) store_n(queries[q].out + from + i * LANES, a[q][i]);
}

/* Add eight elements of a tile's values, weighted, to the sums of one query. */
static void add_eight(const Query *query, const float *weights, float fade, const Tile *tile, int64_t from) {
    v8 a = load(query->out + from) * fade;
    for (int64_t j = 0; j < tile->count; j++) a = fused(all(weights[j]), load(tile->values[j] + from), a);
    store(query->out + from, a);
}

static inline __attribute__((always_inline)) void attend_queries(
    const Query *queries, const Tile *tile, const float *transposed, const int count
) {
    float weights[QUERIES][TILE], fades[QUERIES];
    score(queries, tile->keys, transposed, tile->size, tile->scale, weights, count);
    for (int q = 0; q < count; q++) fades[q] = softmax(queries[q].sums, weights[q], tile->count);
    int64_t from = 0;
    for (; from + WIDE <= tile->value_size; from += WIDE)
        add_values(queries, weights, fades, tile, from, count, WIDE / LANES);
    for (; from + LANES <= tile->value_size; from += LANES)
        add_values(queries, weights, fades, tile, from, count, 1);
    for (int q = 0; q < count && from < tile->value_size; q++)
        add_eight(queries + q, weights[q], fades[q], tile, from);
}

static void attend_tile(const Query *queries, int64_t count, const Tile *tile) {
    float transposed[tile->size * TILE], *shared = NULL;
    if (count > QUERIES) transpose_tile(tile->keys, tile->size, shared = transposed);
    for (; count >= QUERIES; count -= QUERIES, queries += QUERIES) attend_queries(queries, tile, shared, QUERIES);
    switch (count) {
        case 3: return attend_queries(queries, tile, shared, 3);
        case 2: return attend_queries(queries, tile, shared, 2);
        case 1: return attend_queries(queries, tile, shared, 1);
    }
}

static void merge(Sums *whole, float *out, const Sums *part, const float *values, int64_t size) {
    float most = part->most > whole->most ? part->most : whole->most;
    float old = whole->most == -INFINITY ? 0 : exp_of(all(whole->most - most))[0];
    float new = exp_of(all(part->most - most))[0];
    for (int64_t i = 0; i < size; i += 8) store(out + i, load(out + i) * old + load(values + i) * new);
    whole->weight = whole->weight * old + part->weight * new;
    whole->most = most;
}

typedef struct {
    const float *query, *keys, *values;
    int64_t query_head, query_row, key_head, value_head, prefix, rows, heads, shared, size, value_size;
    float scale;
    const uint8_t *visible;
    Sums *sums;     /* [spans, heads, rows] */
    float *partial; /* [spans, heads, rows, value_size] */
    float *out;     /* [rows, heads, value_size] */
} Task;

/* Let a key head's queries from `first` to `last` - 1, numbered row by row, attend to the prefix: to the whole tiles of
   one span. */
static void attend_prefix(const Task *t, int64_t head, int64_t span, int64_t first, int64_t last) {
    int64_t group = t->heads / t->shared, tiles = t->prefix / TILE;
    Query queries[CHUNK];
    for (int64_t q = first; q < last; q++) {
        int64_t row = q / group, query_head = head * group + q % group;
        int64_t place = (span * t->heads + query_head) * t->rows + row;
        const float *query = t->query + query_head * t->query_head + row * t->query_row;
        queries[q - first] = (Query){query, t->sums + place, t->partial + place * t->value_size};
        begin(t->sums + place, t->partial + place * t->value_size, t->value_size);
    }
    for (int64_t number = span * SPAN; number < tiles && number < (span + 1) * SPAN; number++) {
        Tile tile = {.count = TILE, .size = t->size, .value_size = t->value_size, .scale = t->scale};
        for (int64_t j = 0; j < TILE; j++) {
            tile.keys[j] = t->keys + head * t->key_head + (number * TILE + j) * t->size;
            tile.values[j] = t->values + head * t->value_head + (number * TILE + j) * t->value_size;
        }
        attend_tile(queries, last - first, &tile);
    }
}

/* Collect the slots that a row sees after the whole tiles of the prefix: the rest of the prefix, then rows of the block.
   Return the number of slots. */
static int64_t gather(const Task *t, int64_t row, int64_t *slots) {
    int64_t count = 0;
    for (int64_t slot = t->prefix / TILE * TILE; slot < t->prefix; slot++) slots[count++] = slot;
    for (int64_t other = 0; other < t->rows; other++)
        if (t->visible[row * t->rows + other]) slots[count++] = t->prefix + other;
    return count;
}

/* Finish the heads of a row that share a key head: attend to the last tiles, and merge all spans in order. `room`
   has `value_size` floats for each head. */
static void finish_row(const Task *t, int64_t row, int64_t key_head, const int64_t *slots, int64_t count, float *room) {
    int64_t tiles = t->prefix / TILE, all_tiles = tiles + (count + TILE - 1) / TILE;
    int64_t group = t->heads / t->shared, size = t->value_size;
    float *out = t->out + (row * t->heads + key_head * group) * size;
    Sums whole[group], open[group];
    Query queries[group];
    for (int64_t g = 0; g < group; g++) {
        const float *query = t->query + (key_head * group + g) * t->query_head + row * t->query_row;
        queries[g] = (Query){query, open + g, room + g * size};
        begin(whole + g, out + g * size, size);
    }
    for (int64_t span = 0; span * SPAN < all_tiles; span++) {
        for (int64_t g = 0; g < group; g++) {
            int64_t place = (span * t->heads + key_head * group + g) * t->rows + row;
            if (span * SPAN < tiles) {
                open[g] = t->sums[place];
                memcpy(room + g * size, t->partial + place * size, size * sizeof(float));
            } else begin(open + g, room + g * size, size);
        }
        int64_t from = span * SPAN > tiles ? span * SPAN : tiles;
        for (int64_t number = from; number < all_tiles && number < (span + 1) * SPAN; number++) {
            int64_t begins = (number - tiles) * TILE, some = count - begins < TILE ? count - begins : TILE;
            Tile tile = {.count = some, .size = t->size, .value_size = size, .scale = t->scale};
            for (int64_t j = 0; j < TILE; j++) {
                int64_t slot = slots[begins + (j < some ? j : some - 1)];
                tile.keys[j] = t->keys + key_head * t->key_head + slot * t->size;
                tile.values[j] = t->values + key_head * t->value_head + slot * size;
            }
            attend_tile(queries, group, &tile);
        }
        for (int64_t g = 0; g < group; g++) merge(whole + g, out + g * size, open + g, room + g * size, size);
    }
    for (int64_t g = 0; g < group; g++)
        for (int64_t i = 0; i < size; i += 8)
            store(out + g * size + i, load(out + g * size + i) / whole[g].weight);
}

static int64_t spans_of(int64_t prefix) { return (prefix / TILE + SPAN - 1) / SPAN; }

static void attend_rows(const Task *task) {
    int64_t spans = spans_of(task->prefix), queries = task->rows * (task->heads / task->shared);
    int64_t chunks = (queries + CHUNK - 1) / CHUNK, jobs = task->shared * spans * chunks;
#pragma omp for schedule(dynamic)
    for (int64_t job = 0; job < jobs; job++) {
        int64_t chunk = job % chunks, last = (chunk + 1) * CHUNK;
        attend_prefix(task, job / chunks / spans, job / chunks % spans, chunk * CHUNK, last < queries ? last : queries);
    }
#pragma omp for schedule(dynamic)
    for (int64_t row = 0; row < task->rows; row++) {
        int64_t slots[TILE + task->rows];
        float room[task->heads / task->shared * task->value_size];
        int64_t count = gather(task, row, slots);
        for (int64_t head = 0; head < task->shared; head++) finish_row(task, row, head, slots, count, room);
    }
}

/* Compute the attention of a block; head sizes must be multiples of 8. `sums` [spans, heads, rows, 2] and `partial`
   [spans, heads, rows, value_size] are temporary memory for the spans of the prefix. */
void attend(
    const float *query, int64_t query_head, int64_t query_row, const float *keys, int64_t key_head,
    const float *values, int64_t value_head, int64_t prefix, int64_t rows, int64_t heads, int64_t shared,
    int64_t size, int64_t value_size, float scale, const uint8_t *visible, float *sums, float *partial, float *out,
    int32_t threads
) {
    Task task = {query, keys, values, query_head, query_row, key_head, value_head, prefix, rows, heads, shared,
                 size, value_size, scale, visible, (Sums *)sums, partial, out};
#pragma omp parallel num_threads(threads) if (threads > 1)
    attend_rows(&task);
}
