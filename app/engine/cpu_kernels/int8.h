/* Products of 8-bit weights.

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
   the weight are asked for, since memory is what a step of few rows waits for. */
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
    const float *weight_scale, *bias; /* bias may be NULL */
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
    for (int64_t r = 0; r < rows; r++) quantise_row(x + r * size, size, limit, numbers + r * size, scales + r);
}

/* Few rows at a time meet some of the weight: both stay in the caches. The threads go on without waiting. */
static void multiply_rows(const Product *p, int64_t rows) {
#pragma omp for schedule(static) nowait
    for (int64_t part = 0; part < p->outs; part += PART_OUTS)
        for (int64_t r = 0; r < rows; r += PART_ROWS) {
            int64_t last = rows - r < PART_ROWS ? rows : r + PART_ROWS;
            int64_t end = p->outs - part < PART_OUTS ? p->outs : part + PART_OUTS;
            for (int64_t first = part; first < end; first += OUTS) multiply(p, r, last, first);
        }
}

/* x [rows, size] times weight [outs, size], scaled, to out [rows, outs].
   numbers [rows, size] and scales [rows] are room for the quantised rows. */
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
