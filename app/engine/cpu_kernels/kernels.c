/* The CPU's kernels: products of 8-bit weights, norms, gates, rotary turns and attention over a block.

   Every row is computed by itself, in an order that depends on nothing but the text before it: not on the other rows,
   nor on threads, nor on where its keys lie. So a row has the same bits in a step of one row and in one of 128.
   `launching.py`, `int8_linear.py` and `attention.py` call these functions; all floats are float32. */

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float v8 __attribute__((vector_size(32), aligned(4)));
typedef int32_t v8i __attribute__((vector_size(32), aligned(4)));

static inline v8 load(const float *from) { return *(const v8 *)from; }
static inline void store(float *to, v8 values) { *(v8 *)to = values; }
static inline v8 all(float value) { return (v8){value, value, value, value, value, value, value, value}; }

/* a * b + sum, rounded once where the processor can. Nothing else is (-ffp-contract=off). */
static inline v8 fused(v8 a, v8 b, v8 sum) {
#if defined(__FMA__)
    return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
    return a * b + sum;
#endif
}

static inline float sum_of(v8 x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

static inline v8 at_most(v8 x, v8 bound) { return (v8)(((v8i)x & (x < bound)) | ((v8i)bound & ~(x < bound))); }
static inline v8 at_least(v8 x, v8 bound) { return (v8)(((v8i)x & (x > bound)) | ((v8i)bound & ~(x > bound))); }

static float largest_of(v8 x) {
    float most = x[0];
    for (int i = 1; i < 8; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* exp by 2^n times a polynomial of the rest (Cephes' coefficients): off by two units in the last place at most. */
static inline v8 exp_of(v8 x) {
    x = at_least(at_most(x, all(88.0f)), all(-87.0f));
    v8 n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    v8 r = x - n * 0.693359375f - n * -2.12194440e-4f;
    v8 p = fused(all(1.9875691500e-4f), r, all(1.3981999507e-3f));
    p = fused(p, r, all(8.3334519073e-3f));
    p = fused(p, r, all(4.1665795894e-2f));
    p = fused(p, r, all(1.6666665459e-1f));
    p = fused(p, r, all(5.0000001201e-1f));
    p = fused(p, r * r, r) + 1.0f;
    v8i power = (__builtin_convertvector(n, v8i) + 127) << 23;
    return p * (v8)power;
}

/* ---- products of 8-bit weights ---------------------------------------------------------------------------------

   A row of activations becomes whole numbers of up to 16 bits: its largest value becomes `limit`, so small that the
   sum of a whole row of products fits 32 bits. Such sums are exact, so their order is free. */

static void quantise_row(const float *row, int64_t size, int32_t limit, int16_t *numbers, float *scale) {
    v8 most = all(0);
    int64_t i = 0;
    for (; i + 8 <= size; i += 8) most = at_least((v8)((v8i)load(row + i) & 0x7fffffff), most);
    float largest = largest_of(most);
    for (; i < size; i++) largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
    float factor = largest > 0 ? limit / largest : 0;
    for (i = 0; i < size; i++) numbers[i] = (int16_t)(int32_t)rintf(row[i] * factor);
    *scale = largest / limit;
}


#define OUTS 2
#define ROWS 4
#define AHEAD 8 /* rows of the weight */
#define PART_OUTS 32
#define PART_ROWS 16

#if defined(__AVX2__)
static inline __attribute__((always_inline)) __m256i multiply_add(__m256i sums, __m256i a, __m256i b) {
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return _mm256_dpwssd_epi32(sums, a, b);
#else
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
#endif
}

static inline int32_t sum_of_ints(__m256i x) {
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
}

/* `rows` rows times OUTS rows of the weight, as constants so that all sums stay in registers. `ahead`: later rows of
   the weight are asked for, since memory is what a step of one row waits for. */
static inline __attribute__((always_inline)) void dots(
    const int rows, const int ahead, const int16_t *x, const int8_t *const *weight, int64_t size, int32_t sums[][OUTS]
) {
    __m256i partial[ROWS][OUTS];
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < OUTS; o++) partial[r][o] = _mm256_setzero_si256();
    int64_t k = 0;
    for (; k + 16 <= size; k += 16) {
        __m256i a[ROWS];
        for (int r = 0; r < rows; r++) a[r] = _mm256_loadu_si256((const __m256i *)(x + r * size + k));
        for (int o = 0; o < OUTS; o++) {
            __m256i w = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(weight[o] + k)));
            if (ahead && k % 64 == 0) _mm_prefetch(weight[o] + k + AHEAD * size, _MM_HINT_T0);
            for (int r = 0; r < rows; r++) partial[r][o] = multiply_add(partial[r][o], a[r], w);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < OUTS; o++) {
            sums[r][o] = sum_of_ints(partial[r][o]);
            for (int64_t i = k; i < size; i++) sums[r][o] += x[r * size + i] * weight[o][i];
        }
}
#else
static inline void dots(
    const int rows, const int ahead, const int16_t *x, const int8_t *const *weight, int64_t size, int32_t sums[][OUTS]
) {
    (void)ahead;
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < OUTS; o++) {
            int32_t sum = 0;
            for (int64_t i = 0; i < size; i++) sum += x[r * size + i] * weight[o][i];
            sums[r][o] = sum;
        }
}
#endif

/* What a product is made of: whole numbers, their scales, and where it goes. */
typedef struct {
    const int16_t *numbers;
    const float *scales;
    const int8_t *weight;
    const float *weight_scale;
    int64_t size, outs;
    float *out;
} Product;

/* Rows `r` to `last` times OUTS rows of the weight from `first` on. */
static void multiply(const Product *p, int64_t r, int64_t last, int64_t first) {
    const int8_t *lines[OUTS];
    int64_t count = p->outs - first < OUTS ? p->outs - first : OUTS;
    for (int64_t o = 0; o < OUTS; o++) lines[o] = p->weight + (first + (o < count ? o : 0)) * p->size;
    while (r < last) {
        int32_t sums[ROWS][OUTS];
        int64_t some = last - r >= ROWS ? ROWS : last - r;
        const int16_t *a = p->numbers + r * p->size;
        if (some == 1) dots(1, 1, a, lines, p->size, sums);
        else if (some == 2) dots(2, 0, a, lines, p->size, sums);
        else if (some == 3) dots(3, 0, a, lines, p->size, sums);
        else dots(ROWS, 0, a, lines, p->size, sums);
        for (int64_t i = 0; i < some; i++, r++)
            for (int64_t o = 0; o < count; o++)
                p->out[r * p->outs + first + o] = (float)sums[i][o] * p->scales[r] * p->weight_scale[first + o];
    }
}

/* x [rows, size] times weight [outs, size], scaled, to out [rows, outs].
   numbers [rows, size] and scales [rows] are room for the quantised rows. Few rows at a time meet some of the weight:
   both stay in the caches. */
void int8_linear(
    const float *x, int64_t rows, int64_t size, const int8_t *weight, const float *weight_scale,
    int64_t outs, int32_t limit, int16_t *numbers, float *scales, float *out, int32_t threads
) {
    Product product = {numbers, scales, weight, weight_scale, size, outs, out};
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) quantise_row(x + r * size, size, limit, numbers + r * size, scales + r);
#pragma omp for schedule(static)
        for (int64_t part = 0; part < outs; part += PART_OUTS)
            for (int64_t r = 0; r < rows; r += PART_ROWS) {
                int64_t last = rows - r < PART_ROWS ? rows : r + PART_ROWS;
                int64_t end = outs - part < PART_OUTS ? outs : part + PART_OUTS;
                for (int64_t first = part; first < end; first += OUTS) multiply(&product, r, last, first);
            }
    }
}

/* ---- norms, gates, rotary turns -------------------------------------------------------------------------------- */

/* total = x + others (NULL: x alone, and no total is written); out = its RMSNorm times weight, plus one if so. */
void rms_norm(
    const float *x, const float *others, const float *weight, int64_t rows, int64_t size, float eps,
    int32_t adds_one, float *total, float *out
) {
    for (int64_t r = 0; r < rows; r++, x += size, total += size, out += size) {
        const float *row = x;
        if (others) {
            for (int64_t i = 0; i < size; i++) total[i] = x[i] + others[i];
            row = total;
            others += size;
        }
        v8 squares[4] = {all(0), all(0), all(0), all(0)};
        int64_t i = 0;
        for (; i + 32 <= size; i += 32)
            for (int j = 0; j < 4; j++) squares[j] = fused(load(row + i + 8 * j), load(row + i + 8 * j), squares[j]);
        float sum = sum_of((squares[0] + squares[1]) + (squares[2] + squares[3]));
        for (; i < size; i++) sum += row[i] * row[i];
        float factor = 1.0f / sqrtf(sum / size + eps);
        if (adds_one)
            for (i = 0; i < size; i++) out[i] = row[i] * factor * (1.0f + weight[i]);
        else
            for (i = 0; i < size; i++) out[i] = row[i] * factor * weight[i];
    }
}

static inline v8 gated(v8 gate, v8 up, int32_t is_gelu) {
    if (!is_gelu) return gate / (1.0f + exp_of(-gate)) * up;
    v8 inner = 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate);
    /* (1 + tanh y) / 2 is the logistic function of 2 y */
    return gate / (1.0f + exp_of(-2.0f * inner)) * up;
}

/* activation(gate) * up; rows of gate and up may lie apart. */
void gated_activation(
    const float *gate, int64_t gate_stride, const float *up, int64_t up_stride, int64_t rows, int64_t size,
    int32_t is_gelu, float *out, int32_t threads
) {
#pragma omp parallel for num_threads(threads) if (threads > 1 && rows > 3)
    for (int64_t r = 0; r < rows; r++) {
        const float *g = gate + r * gate_stride, *u = up + r * up_stride;
        float *to = out + r * size;
        int64_t i = 0;
        for (; i + 8 <= size; i += 8) store(to + i, gated(load(g + i), load(u + i), is_gelu));
        if (i < size) {
            float a[8] = {0}, b[8] = {0};
            memcpy(a, g + i, (size - i) * sizeof(float));
            memcpy(b, u + i, (size - i) * sizeof(float));
            store(a, gated(load(a), load(b), is_gelu));
            memcpy(to + i, a, (size - i) * sizeof(float));
        }
    }
}

/* Heads [heads, rows, size] (head and row strides given) turned by cos and sin [rows, width], to out [rows, heads,
   size]. Value i turns with value i + width / 2; those from width on stay. */
void rotate(
    const float *states, int64_t head_stride, int64_t row_stride, const float *cos, const float *sin, int64_t heads,
    int64_t rows, int64_t size, int64_t width, float *out
) {
    int64_t half = width / 2;
    for (int64_t r = 0; r < rows; r++, cos += width, sin += width)
        for (int64_t h = 0; h < heads; h++) {
            const float *from = states + h * head_stride + r * row_stride;
            float *to = out + (r * heads + h) * size;
            for (int64_t i = 0; i < half; i++) {
                float low = from[i], high = from[i + half];
                to[i] = low * cos[i] - high * sin[i];
                to[i + half] = high * cos[i + half] + low * sin[i + half];
            }
            for (int64_t i = width; i < size; i++) to[i] = from[i];
        }
}

/* ---- attention ---------------------------------------------------------------------------------------------------

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
    int64_t spans = (prefix / TILE + SPAN - 1) / SPAN, queries = rows * (heads / shared);
    int64_t chunks = (queries + CHUNK - 1) / CHUNK, jobs = shared * spans * chunks;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(dynamic)
        for (int64_t job = 0; job < jobs; job++) {
            int64_t chunk = job % chunks, last = (chunk + 1) * CHUNK;
            meet_prefix(&task, job / chunks / spans, job / chunks % spans, chunk * CHUNK,
                        last < queries ? last : queries);
        }
#pragma omp for schedule(dynamic)
        for (int64_t row = 0; row < rows; row++) {
            int64_t slots[TILE + rows];
            float room[value_size];
            int64_t count = gather(&task, row, slots);
            for (int64_t head = 0; head < heads; head++) finish_query(&task, head, row, slots, count, room);
        }
    }
}
