/* Attention over a block.

   A row sees the prefix and, of the block, the rows that `visible` says, in this order. What it sees is cut into tiles
   of TILE keys, and those into spans of SPAN tiles: a span is summed from nothing, tile by tile, and the spans are
   merged in order. Tiles of the prefix are the same for all rows and are read once for many; the last ones are
   gathered for each row. Which is which changes no bit. */

#define TILE 32
#define SPAN 8
#define WIDE 64
#define CHUNK 32

/* The running softmax of one query: its largest score, its sum of weights, and the weighted values. */
typedef struct {
    float most, weight;
} Sums;

static inline void begin(Sums *sums, float *values, int64_t size) {
    *sums = (Sums){-INFINITY, 0};
    memset(values, 0, size * sizeof(float));
}

static inline v8 eight_dots(const float *query, const float *const *keys, int64_t size) {
    v8 s[8];
    for (int j = 0; j < 8; j++) s[j] = all(0);
    for (int64_t d = 0; d < size; d += 8) {
        v8 q = load(query + d);
        for (int j = 0; j < 8; j++) s[j] = fused(q, load(keys[j] + d), s[j]);
    }
#if defined(__AVX2__)
    __m256 a = _mm256_hadd_ps((__m256)s[0], (__m256)s[1]), b = _mm256_hadd_ps((__m256)s[2], (__m256)s[3]);
    __m256 c = _mm256_hadd_ps((__m256)s[4], (__m256)s[5]), d = _mm256_hadd_ps((__m256)s[6], (__m256)s[7]);
    a = _mm256_hadd_ps(a, b), c = _mm256_hadd_ps(c, d);
    return (v8)_mm256_add_ps(_mm256_permute2f128_ps(a, c, 0x20), _mm256_permute2f128_ps(a, c, 0x31));
#else
    return (v8){sum_of(s[0]), sum_of(s[1]), sum_of(s[2]), sum_of(s[3]),
                sum_of(s[4]), sum_of(s[5]), sum_of(s[6]), sum_of(s[7])};
#endif
}

static inline __attribute__((always_inline)) void add_values(
    float *sums, const float *weights, const float *const *values, int64_t keys, float fade, const int vectors
) {
    v8 a[WIDE / 8];
    for (int i = 0; i < vectors; i++) a[i] = load(sums + 8 * i) * fade;
    for (int64_t j = 0; j < keys; j++) {
        v8 w = all(weights[j]);
        for (int i = 0; i < vectors; i++) a[i] = fused(w, load(values[j] + 8 * i), a[i]);
    }
    for (int i = 0; i < vectors; i++) store(sums + 8 * i, a[i]);
}

/* One query meets one tile of `count` keys; pointers beyond them repeat the last. */
static void meet_tile(
    Sums *sums, float *out, const float *query, const float *const *keys, const float *const *values, int64_t count,
    int64_t size, int64_t value_size, float scale
) {
    float weights[TILE];
    int64_t padded = (count + 7) / 8 * 8;
    v8 most = all(sums->most);
    for (int64_t j = 0; j < padded; j += 8) {
        v8 scores = eight_dots(query, keys + j, size) * scale;
        store(weights + j, scores);
        most = at_least(scores, most); /* repeated keys change no maximum */
    }
    float largest = largest_of(most);
    v8 sum = all(0);
    for (int64_t j = 0; j < padded; j += 8) store(weights + j, exp_of(load(weights + j) - largest));
    for (int64_t j = count; j < padded; j++) weights[j] = 0;
    for (int64_t j = 0; j < padded; j += 8) sum += load(weights + j);
    float fade = exp_of(all(sums->most - largest))[0];
    if (sums->most == -INFINITY) fade = 0;
    sums->weight = sums->weight * fade + sum_of(sum);
    sums->most = largest;
    for (int64_t d = 0; d < value_size; d += WIDE) {
        const float *moved[TILE];
        for (int64_t j = 0; j < count; j++) moved[j] = values[j] + d;
        int64_t vectors = (value_size - d) / 8;
        if (vectors >= WIDE / 8) add_values(out + d, weights, moved, count, fade, WIDE / 8);
        else for (int64_t i = 0; i < vectors; i++) {
            add_values(out + d + 8 * i, weights, moved, count, fade, 1);
            for (int64_t j = 0; j < count; j++) moved[j] += 8;
        }
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

/* Queries `first` to `last` of a key head meet a span's whole tiles of the prefix. Queries are counted row by row. */
static void meet_prefix(const Task *t, int64_t head, int64_t span, int64_t first, int64_t last) {
    int64_t group = t->heads / t->shared, tiles = t->prefix / TILE;
    for (int64_t tile = span * SPAN; tile < tiles && tile < (span + 1) * SPAN; tile++) {
        const float *keys[TILE], *values[TILE];
        for (int64_t j = 0; j < TILE; j++) {
            keys[j] = t->keys + head * t->key_head + (tile * TILE + j) * t->size;
            values[j] = t->values + head * t->value_head + (tile * TILE + j) * t->value_size;
        }
        for (int64_t q = first; q < last; q++) {
            int64_t row = q / group, query_head = head * group + q % group;
            int64_t place = (span * t->heads + query_head) * t->rows + row;
            if (tile == span * SPAN) begin(t->sums + place, t->partial + place * t->value_size, t->value_size);
            meet_tile(t->sums + place, t->partial + place * t->value_size,
                      t->query + query_head * t->query_head + row * t->query_row, keys, values, TILE,
                      t->size, t->value_size, t->scale);
        }
    }
}

/* Of the block and of the prefix behind its whole tiles, the slots that a row sees; returns how many. */
static int64_t gather(const Task *t, int64_t row, int64_t *slots) {
    int64_t count = 0;
    for (int64_t slot = t->prefix / TILE * TILE; slot < t->prefix; slot++) slots[count++] = slot;
    for (int64_t other = 0; other < t->rows; other++)
        if (t->visible[row * t->rows + other]) slots[count++] = t->prefix + other;
    return count;
}

/* One query head of a row: its spans merged in order, the last tiles gathered. */
static void finish_query(const Task *t, int64_t head, int64_t row, const int64_t *slots, int64_t count, float *room) {
    int64_t tiles = t->prefix / TILE, all_tiles = tiles + (count + TILE - 1) / TILE;
    int64_t key_head = head / (t->heads / t->shared), size = t->value_size;
    const float *query = t->query + head * t->query_head + row * t->query_row;
    float *out = t->out + (row * t->heads + head) * size;
    Sums whole, open;
    begin(&whole, out, size);
    for (int64_t span = 0; span * SPAN < all_tiles; span++) {
        int64_t place = (span * t->heads + head) * t->rows + row;
        if (span * SPAN < tiles) {
            open = t->sums[place];
            memcpy(room, t->partial + place * size, size * sizeof(float));
        } else begin(&open, room, size);
        int64_t from = span * SPAN > tiles ? span * SPAN : tiles;
        for (int64_t tile = from; tile < all_tiles && tile < (span + 1) * SPAN; tile++) {
            const float *keys[TILE], *values[TILE];
            int64_t begins = (tile - tiles) * TILE, some = count - begins < TILE ? count - begins : TILE;
            for (int64_t j = 0; j < TILE; j++) {
                int64_t slot = slots[begins + (j < some ? j : some - 1)];
                keys[j] = t->keys + key_head * t->key_head + slot * t->size;
                values[j] = t->values + key_head * t->value_head + slot * size;
            }
            meet_tile(&open, room, query, keys, values, some, t->size, size, t->scale);
        }
        merge(&whole, out, &open, room, size);
    }
    for (int64_t i = 0; i < size; i += 8) store(out + i, load(out + i) / whole.weight);
}

static int64_t spans_of(int64_t prefix) { return (prefix / TILE + SPAN - 1) / SPAN; }

static void attend_rows(const Task *task) {
    int64_t spans = spans_of(task->prefix), queries = task->rows * (task->heads / task->shared);
    int64_t chunks = (queries + CHUNK - 1) / CHUNK, jobs = task->shared * spans * chunks;
#pragma omp for schedule(dynamic)
    for (int64_t job = 0; job < jobs; job++) {
        int64_t chunk = job % chunks, last = (chunk + 1) * CHUNK;
        meet_prefix(task, job / chunks / spans, job / chunks % spans, chunk * CHUNK, last < queries ? last : queries);
    }
#pragma omp for schedule(dynamic)
    for (int64_t row = 0; row < task->rows; row++) {
        int64_t slots[TILE + task->rows];
        float room[task->value_size];
        int64_t count = gather(task, row, slots);
        for (int64_t head = 0; head < task->heads; head++) finish_query(task, head, row, slots, count, room);
    }
}

/* Attention of a block; sizes of heads are multiples of 8. `sums` [spans, heads, rows, 2] and `partial` [spans, heads,
   rows, value_size] are room for the spans of the prefix. */
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
