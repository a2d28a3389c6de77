/* Products of 8-bit weights.

   A row of activations becomes whole numbers of up to 16 bits: its largest value becomes `limit`, so small that the
   sum of a whole row of products fits 32 bits. Such sums are exact, so their order is free. */

/* What a product is made of: whole numbers, as `quantise_row` leaves them, their scales, and where it goes. */
typedef struct {
    const int16_t *numbers;
    const float *scales;
    const int8_t *weight;
    const float *weight_scale, *bias; /* bias may be NULL */
    int64_t size, outs;
    float *out;
} Product;

#include "tiles.h"

/* Row `r` of a product of so many rows, where that product reads it. */
static void quantise_row(
    const float *row, int64_t r, int64_t rows, int64_t size, int32_t limit, int16_t *numbers, float *scales
) {
    v8 most = all(0);
    int64_t i = 0;
    for (; i + 8 <= size; i += 8) most = at_least((v8)((v8i)load(row + i) & 0x7fffffff), most);
    float largest = largest_of(most);
    for (; i < size; i++) largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
    float factor = largest > 0 ? limit / largest : 0;
    scales[r] = largest / limit;
    if (is_tiled(rows, size)) {
        tile_row(row, r, size, factor, numbers);
        return;
    }
    for (i = 0; i < size; i++) numbers[r * size + i] = (int16_t)(int32_t)rintf(row[i] * factor);
}

#define OUTS 2
#define ROWS 4
#define AHEAD 8 /* rows of the weight */
#define PART_OUTS 32
#define PART_ROWS 16

#if defined(__AVX512BW__)
#define STEP 32 /* numbers at a time */
typedef __m512i Numbers;
static inline Numbers no_numbers(void) { return _mm512_setzero_si512(); }
static inline Numbers load_numbers(const int16_t *from) { return _mm512_loadu_si512(from); }
static inline Numbers load_weights(const int8_t *from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)from));
}
static inline Numbers multiply_add(Numbers sums, Numbers a, Numbers b) {
#if defined(__AVX512VNNI__)
    return _mm512_dpwssd_epi32(sums, a, b);
#else
    return _mm512_add_epi32(sums, _mm512_madd_epi16(a, b));
#endif
}
static inline __m256i halved(Numbers x) {
    return _mm256_add_epi32(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
}
#elif defined(__AVX2__)
#define STEP 16
typedef __m256i Numbers;
static inline Numbers no_numbers(void) { return _mm256_setzero_si256(); }
static inline Numbers load_numbers(const int16_t *from) { return _mm256_loadu_si256((const __m256i *)from); }
static inline Numbers load_weights(const int8_t *from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
}
static inline Numbers multiply_add(Numbers sums, Numbers a, Numbers b) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
}
static inline __m256i halved(Numbers x) { return x; }
#endif

#if defined(STEP)
/* The sums of four vectors at once. */
static inline void sum_four(const Numbers *x, int32_t *sums) {
    __m256i pairs = _mm256_hadd_epi32(halved(x[0]), halved(x[1]));
    __m256i fours = _mm256_hadd_epi32(pairs, _mm256_hadd_epi32(halved(x[2]), halved(x[3])));
    _mm_storeu_si128((__m128i *)sums, _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1)));
}

/* `rows` rows times OUTS rows of the weight, as constants so that all sums stay in registers. `ahead`: later rows of
   the weight are asked for, since memory is what a step of few rows waits for. */
static inline __attribute__((always_inline)) void dots(
    const int rows, const int ahead, const int16_t *x, const int8_t *const *weight, int64_t size, int32_t sums[][OUTS]
) {
    Numbers partial[ROWS][OUTS];
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUTS; o++) partial[r][o] = no_numbers();
    int64_t k = 0;
    for (; k + STEP <= size; k += STEP) {
        Numbers a[ROWS];
        for (int r = 0; r < rows; r++) a[r] = load_numbers(x + r * size + k);
        for (int o = 0; o < OUTS; o++) {
            Numbers w = load_weights(weight[o] + k);
            if (ahead && k % 64 == 0) _mm_prefetch(weight[o] + k + AHEAD * size, _MM_HINT_T0);
            for (int r = 0; r < rows; r++) partial[r][o] = multiply_add(partial[r][o], a[r], w);
        }
    }
    for (int i = 0; i < rows * OUTS; i += 4) sum_four(&partial[0][0] + i, &sums[0][0] + i);
    for (; k < size; k++)
        for (int r = 0; r < rows; r++)
            for (int o = 0; o < OUTS; o++) sums[r][o] += x[r * size + k] * weight[o][k];
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
        else if (some == 2) dots(2, 1, a, lines, p->size, sums);
        else if (some == 3) dots(3, 1, a, lines, p->size, sums);
        else if (last <= ROWS) dots(ROWS, 1, a, lines, p->size, sums);
        else dots(ROWS, 0, a, lines, p->size, sums);
        for (int64_t i = 0; i < some; i++, r++)
            for (int64_t o = 0; o < count; o++) {
                float product = (float)sums[i][o] * p->scales[r] * p->weight_scale[first + o];
                p->out[r * p->outs + first + o] = p->bias ? product + p->bias[first + o] : product;
            }
    }
}

static void quantise(const float *x, int64_t rows, int64_t size, int32_t limit, int16_t *numbers, float *scales) {
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) quantise_row(x + r * size, r, rows, size, limit, numbers, scales);
}

/* Few rows at a time meet some of the weight: both stay in the caches. The threads go on without waiting. */
static void multiply_rows(const Product *p, int64_t rows) {
    if (is_tiled(rows, p->size)) {
        multiply_tiled_rows(p, rows);
        return;
    }
#pragma omp for schedule(static) nowait
    for (int64_t part = 0; part < p->outs; part += PART_OUTS)
        for (int64_t r = 0; r < rows; r += PART_ROWS) {
            int64_t last = rows - r < PART_ROWS ? rows : r + PART_ROWS;
            int64_t end = p->outs - part < PART_OUTS ? p->outs : part + PART_OUTS;
            for (int64_t first = part; first < end; first += OUTS) multiply(p, r, last, first);
        }
}

/* x [rows, size] times weight [outs, size], scaled, to out [rows, outs].
   numbers [rows, up to a multiple of TILE_ROWS, size] and scales [rows] are room for the quantised rows. */
void int8_linear(
    const float *x, int64_t rows, int64_t size, const int8_t *weight, const float *weight_scale,
    int64_t outs, int32_t limit, int16_t *numbers, float *scales, float *out, int32_t threads
) {
    Product product = {numbers, scales, weight, weight_scale, NULL, size, outs, out};
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        quantise(x, rows, size, limit, numbers, scales);
        multiply_rows(&product, rows);
    }
}
