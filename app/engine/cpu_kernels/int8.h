/* Products of 8-bit weights.

   A row of activations is converted to integers of up to 16 bits: its largest absolute value becomes `limit`, which is
   so small that the sum of a whole row of products fits 32 bits. Such sums are exact, so products may be added in any
   order, and intermediate sums may overflow.

   A weight is stored in the order in which it is read: QUAD numbers of each of GROUP rows, then the next QUAD numbers
   of each: [outs / GROUP, size / QUAD, GROUP, QUAD], with outs padded to a multiple of GROUP and size to a multiple of
   BLOCK. 128 is added to each number, because the processor multiplies unsigned by signed bytes. So each sum is too large
   by 128 times the sum of the activations. */

#define GROUP 16
#define QUAD 4
#define BLOCK 64 /* quantised rows are padded to multiples of this */

/* The scale of a quantised row of activations, and the correction of its sums. */
typedef struct {
    float scale;
    uint32_t excess; /* the amount by which its sums are too large */
} Row;

/* The operands of a product: the rows' numbers as `quantise_row` writes them, the weight, and the output. */
typedef struct {
    const int16_t *numbers; /* [rows, size] */
    const Row *rows;
    const uint8_t *weight;
    const float *weight_scale, *bias; /* bias may be NULL */
    int64_t size, outs;
    float *out;
} Product;

static int64_t whole_blocks(int64_t size) { return (size + BLOCK - 1) / BLOCK * BLOCK; }

static inline __attribute__((always_inline)) void scale_some(
    const Product *p, int64_t r, int64_t first, const uint32_t *sums, int64_t count
) {
    Row row = p->rows[r];
    float *out = p->out + r * p->outs + first;
    for (int64_t o = 0; o < count; o++) {
        float product = (float)(int32_t)(sums[o] - row.excess) * row.scale * p->weight_scale[first + o];
        out[o] = p->bias ? product + p->bias[first + o] : product;
    }
}

static __attribute__((noinline)) void scale_last(const Product *p, int64_t r, int64_t first, const uint32_t *sums) {
    scale_some(p, r, first, sums, p->outs - first);
}

/* Correct and scale the sums of a row with a group of the weight's rows, and write them to `out`. */
static inline void scale_sums(const Product *p, int64_t r, int64_t group, const uint32_t *sums) {
    int64_t first = group * GROUP;
    if (p->outs - first >= GROUP) scale_some(p, r, first, sums, GROUP);
    else scale_last(p, r, first, sums);
}

#define UNROLLED _Pragma("GCC unroll 8") /* without it the compiler keeps sums in memory */

#if defined(__AVX512VNNI__)
#define MOST_ROWS 8
#define EACH_COUNT(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)

/* Write a number as 256 times its high byte plus its low byte, both signed. A row has all high bytes, then all low
   bytes. */
static inline void put_number(int16_t *row, int64_t size, int64_t at, int32_t number) {
    int8_t *high = (int8_t *)row, *low = high + size;
    high[at] = (int8_t)((number + 128) >> 8), low[at] = (int8_t)number;
}

static inline __m512i four_bytes(const int8_t *from) {
    int32_t bytes;
    memcpy(&bytes, from, sizeof bytes);
    return _mm512_set1_epi32(bytes);
}

/* Multiply `rows` rows, a constant, by a group of the weight's rows, with all sums in registers. Prefetches the memory
   that is `ahead` bytes further: the next group, or for 0 this group. */
static inline __attribute__((always_inline)) void multiply_group(
    const Product *p, int64_t r, const int rows, int64_t group, int64_t ahead
) {
    const int chains = rows == 1 ? 4 : rows == 2 ? 2 : 1; /* separate sums, which need not wait for each other */
    __m512i high[MOST_ROWS], low[MOST_ROWS];
    const uint8_t *weight = p->weight + group * GROUP * p->size;
    const int8_t *x = (const int8_t *)(p->numbers + r * p->size);
    UNROLLED
    for (int i = 0; i < rows * chains; i++) high[i] = low[i] = _mm512_setzero_si512();
    for (int64_t k = 0; k < p->size; k += QUAD * chains) {
        _mm_prefetch(weight + k * GROUP + ahead, _MM_HINT_T1);
        UNROLLED
        for (int i = 0; i < rows * chains; i++) {
            __m512i w = _mm512_loadu_si512(weight + (k + i / rows * QUAD) * GROUP);
            const int8_t *bytes = x + 2 * (i % rows) * p->size + k + i / rows * QUAD;
            high[i] = _mm512_dpbusd_epi32(high[i], w, four_bytes(bytes));
            low[i] = _mm512_dpbusd_epi32(low[i], w, four_bytes(bytes + p->size));
            __asm__("" : "+v"(high[i]), "+v"(low[i])); /* makes the compiler keep them in registers */
        }
    }
    UNROLLED
    for (int i = rows; i < rows * chains; i++) {
        high[i % rows] = _mm512_add_epi32(high[i % rows], high[i]);
        low[i % rows] = _mm512_add_epi32(low[i % rows], low[i]);
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        uint32_t sums[GROUP];
        _mm512_storeu_si512(sums, _mm512_add_epi32(_mm512_slli_epi32(high[i], 8), low[i]));
        scale_sums(p, r + i, group, sums);
    }
}
#elif defined(__AVX2__)
#define MOST_ROWS 6
#define EACH_COUNT(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#define VECTORS 4 /* vectors with the sums of a row; each has two sums for each of four rows of the weight */

static inline void put_number(int16_t *row, int64_t size, int64_t at, int32_t number) {
    (void)size;
    row[at] = (int16_t)number;
}

/* Multiply `rows` rows by `count` of a group's vectors, from vector `from` on; these three are constants. Prefetches
   the half of a group that begins at `next`. */
static inline __attribute__((always_inline)) void sum_vectors(
    const Product *p, int64_t r, const int rows, int64_t group, const int from, const int count, const uint8_t *next,
    uint32_t sums[][GROUP]
) {
    __m256i found[MOST_ROWS][VECTORS];
    const uint8_t *weight = p->weight + group * GROUP * p->size + from * GROUP;
    const int16_t *x = p->numbers + r * p->size;
    UNROLLED
    for (int i = 0; i < rows; i++)
        UNROLLED
        for (int v = 0; v < count; v++) found[i][v] = _mm256_setzero_si256();
    for (int64_t k = 0; k < p->size; k += QUAD, weight += GROUP * QUAD) {
        __m256i w[VECTORS];
        UNROLLED
        for (int v = 0; v < count; v++)
            w[v] = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(weight + v * GROUP)));
        _mm_prefetch(next + k * GROUP / 2, _MM_HINT_T1);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            int64_t four;
            memcpy(&four, x + i * p->size + k, sizeof four);
            __m256i numbers = _mm256_set1_epi64x(four);
            UNROLLED
            for (int v = 0; v < count; v++) {
                found[i][v] = _mm256_add_epi32(found[i][v], _mm256_madd_epi16(w[v], numbers));
                __asm__("" : "+x"(found[i][v]));
            }
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++)
        UNROLLED
        for (int v = 0; v < count; v += 2) {
            __m256i eight = _mm256_permute4x64_epi64(_mm256_hadd_epi32(found[i][v], found[i][v + 1]), 0xd8);
            _mm256_storeu_si256((__m256i *)(sums[i] + (from + v) * QUAD), eight);
        }
}

/* Multiply at most two rows by a whole group, and more rows by half a group at a time, so that the sums fit the
   registers. Each half prefetches half of the group that is `ahead` bytes further. */
static inline __attribute__((always_inline)) void multiply_group(
    const Product *p, int64_t r, const int rows, int64_t group, int64_t ahead
) {
    uint32_t sums[MOST_ROWS][GROUP];
    const uint8_t *weight = p->weight + group * GROUP * p->size, *next = weight + ahead;
    if (rows <= 2) sum_vectors(p, r, rows, group, 0, VECTORS, weight, sums);
    else {
        sum_vectors(p, r, rows, group, 0, VECTORS / 2, next, sums);
        sum_vectors(p, r, rows, group, VECTORS / 2, VECTORS / 2, next + GROUP * p->size / 2, sums);
    }
    for (int i = 0; i < rows; i++) scale_sums(p, r + i, group, sums[i]);
}
#else
#define MOST_ROWS 1
#define EACH_COUNT(CASE) CASE(1)

static inline void put_number(int16_t *row, int64_t size, int64_t at, int32_t number) {
    (void)size;
    row[at] = (int16_t)number;
}

static void multiply_group(const Product *p, int64_t r, int rows, int64_t group, int64_t ahead) {
    (void)rows, (void)ahead;
    uint32_t found[GROUP * QUAD] = {0};
    uint32_t sums[GROUP] = {0};
    const uint8_t *weight = p->weight + group * GROUP * p->size;
    for (int64_t k = 0; k < p->size; k += QUAD, weight += GROUP * QUAD) {
        int16_t numbers[GROUP * QUAD];
        for (int i = 0; i < GROUP; i++) memcpy(numbers + i * QUAD, p->numbers + r * p->size + k, QUAD * sizeof *numbers);
        for (int i = 0; i < GROUP * QUAD; i++) found[i] += (uint32_t)(numbers[i] * weight[i]);
    }
    for (int i = 0; i < GROUP * QUAD; i++) sums[i / QUAD] += found[i];
    scale_sums(p, r, group, sums);
}
#endif

#include "tiles.h"

/* Quantise row `r` of `size` values to integers from -limit to limit. */
static void quantise_row(const float *row, int64_t r, int64_t size, int32_t limit, int16_t *numbers, Row *rows) {
    v8 most = all(0);
    int64_t i = 0, whole = whole_blocks(size);
    for (; i + 8 <= size; i += 8) most = at_least((v8)((v8i)load(row + i) & 0x7fffffff), most);
    float largest = largest_of(most);
    for (; i < size; i++) largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
    float factor = largest > 0 ? limit / largest : 0;
    int64_t sum = 0;
    numbers += r * whole;
    for (i = 0; i < size; i++) {
        int32_t number = (int32_t)rintf(row[i] * factor);
        sum += number;
        put_number(numbers, whole, i, number);
    }
    for (; i < whole; i++) put_number(numbers, whole, i, 0);
    rows[r] = (Row){largest / limit, (uint32_t)(128 * sum)};
}

static void quantise(const float *x, int64_t count, int64_t size, int32_t limit, int16_t *numbers, Row *rows) {
#pragma omp for schedule(static)
    for (int64_t r = 0; r < count; r++) quantise_row(x + r * size, r, size, limit, numbers, rows);
}

/* One function for each count of rows, because a single function for all counts takes long to compile. */
#define CASE(count) \
    static __attribute__((noinline)) void multiply_##count(const Product *p, int64_t r, int64_t group, int64_t ahead) { \
        multiply_group(p, r, count, group, ahead); \
    }
EACH_COUNT(CASE)
#undef CASE

/* Multiply all rows by the weight: by one group after the other, because a group stays in the processor's cache. The
   threads do not wait for each other at the end. */
static void multiply_rows(const Product *p, int64_t rows) {
    if (is_tiled(rows)) {
        multiply_tiled_rows(p, rows);
        return;
    }
    int64_t groups = (p->outs + GROUP - 1) / GROUP, parts = (rows + MOST_ROWS - 1) / MOST_ROWS;
#pragma omp for schedule(static) nowait
    for (int64_t group = 0; group < groups; group++)
        for (int64_t part = 0; part < parts; part++) {
            int64_t r = rows * part / parts, ahead = part || rows < 3 ? 0 : GROUP * p->size;
            switch (rows * (part + 1) / parts - r) {
#define CASE(count) case count: multiply_##count(p, r, group, ahead); break;
                EACH_COUNT(CASE)
#undef CASE
            }
        }
}

/* ---- for layer.h ---- */

typedef struct {
    const uint8_t *weight;
    const float *scale, *bias; /* bias may be NULL */
    int64_t size, outs;
    int32_t limit;
} Linear;

static Row *rows_in(float *room) { return (Row *)room; }
static int16_t *numbers_in(float *room, int64_t rows) { return (int16_t *)(room + 2 * rows); }

static int64_t rows_room(int64_t rows, int64_t size) {
    return 2 * rows + (rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS * whole_blocks(size) / 2;
}

static void quantise_for(const Linear *l, const float *row, int64_t r, int64_t rows, float *room) {
    quantise_row(row, r, l->size, l->limit, numbers_in(room, rows), rows_in(room));
}

static void linear(const Linear *l, float *room, int64_t rows, float *out) {
    int64_t size = whole_blocks(l->size);
    Product product = {numbers_in(room, rows), rows_in(room), l->weight, l->scale, l->bias, size, l->outs, out};
    multiply_rows(&product, rows);
}

/* Multiply x [count, size] by a weight of `outs` rows, and write the scaled products to out [count, outs]. `numbers`
   [count, size], padded to multiples of TILE_ROWS and BLOCK, and `rows` [count] are temporary memory for the quantised
   rows. */
void int8_linear(
    const float *x, int64_t count, int64_t size, const uint8_t *weight, const float *weight_scale, int64_t outs,
    int32_t limit, int16_t *numbers, Row *rows, float *out, int32_t threads
) {
    Product product = {numbers, rows, weight, weight_scale, NULL, whole_blocks(size), outs, out};
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        quantise(x, count, size, limit, numbers, rows);
        multiply_rows(&product, count);
    }
}
