/* Products of 8-bit weights by the matrix unit of a processor (AMX): 16 rows times 16 rows of the weight at a time.

   The unit multiplies bytes, so a number of 16 bits is taken apart: its high byte, with a sign, and its low byte,
   without. The sums of both are exact, and so is high * 256 + low: the bits are those of `dots`. */

#define TILE_ROWS 16  /* rows of a tile */
#define TILE_BYTES 64 /* bytes of its rows */

#if defined(__AMX_INT8__) && defined(__AVX512BW__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#define FEWEST_ROWS 2          /* one only waits for memory, which `dots` does as well */
#define LARGEST_SIZE (1 << 16) /* sums of low bytes fit 32 bits */
#define REQUEST_PERMISSION 0x1023
#define TILE_DATA 18

static int may_use_tiles;

/* Linux asks each process to ask. */
__attribute__((constructor)) static void request_tiles(void) {
    may_use_tiles = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static int is_tiled(int64_t rows, int64_t size) {
    return may_use_tiles && rows >= FEWEST_ROWS && size % TILE_BYTES == 0 && size <= LARGEST_SIZE;
}

/* Where 16 rows lie: for each TILE_BYTES of them a tile of high bytes, then one of low bytes. */
static int8_t *tiles_of(const int16_t *numbers, int64_t row, int64_t size) {
    return (int8_t *)(numbers + row / TILE_ROWS * TILE_ROWS * size);
}

/* A row times `factor` as whole numbers, into its column of the tiles: four bytes of each of a tile's rows. */
static void tile_row(const float *row, int64_t r, int64_t size, float factor, int16_t *numbers) {
    int8_t *tiles = tiles_of(numbers, r, size) + r % TILE_ROWS * 4;
    for (int64_t k = 0; k < size; k += 16) {
        __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(row + k), _mm512_set1_ps(factor)));
        int8_t *to = tiles + k / TILE_BYTES * (2 * TILE_ROWS * TILE_BYTES) + k % TILE_BYTES * TILE_ROWS;
        int8_t high[16], low[16];
        _mm_storeu_si128((__m128i *)high, _mm512_cvtepi32_epi8(_mm512_srai_epi32(whole, 8)));
        _mm_storeu_si128((__m128i *)low, _mm512_cvtepi32_epi8(whole));
        for (int i = 0; i < 4; i++) {
            memcpy(to + i * TILE_BYTES, high + 4 * i, 4);
            memcpy(to + TILE_ROWS * TILE_BYTES + i * TILE_BYTES, low + 4 * i, 4);
        }
    }
}

/* Tiles 0 to 3 are sums, 4 and 5 are the weight's, 6 and 7 the rows'. */
static void configure_tiles(int64_t outs) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t width[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.width[i] = TILE_BYTES, config.rows[i] = i < 6 ? outs : TILE_ROWS;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* what tiles read is written by now: the compiler is not told */
    _tile_loadconfig(&config);
}

/* The sums [outs, rows] of a tile, scaled, go to out [rows, outs]. */
static void scale_tile(
    const Product *p, const int32_t (*high)[TILE_ROWS], const int32_t (*low)[TILE_ROWS], int64_t r, int64_t count,
    int64_t first, int64_t outs
) {
    float products[TILE_ROWS][TILE_ROWS];
    __m512 scales = _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p->scales + r);
    for (int64_t o = 0; o < outs; o++) {
        __m512i sums = _mm512_add_epi32(_mm512_slli_epi32(_mm512_loadu_si512(high[o]), 8), _mm512_loadu_si512(low[o]));
        __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scales);
        product = _mm512_mul_ps(product, _mm512_set1_ps(p->weight_scale[first + o]));
        if (p->bias) product = _mm512_add_ps(product, _mm512_set1_ps(p->bias[first + o]));
        _mm512_storeu_ps(products[o], product);
    }
    __m512i lines = _mm512_mullo_epi32(
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(TILE_ROWS)
    );
    __mmask16 wanted = (__mmask16)((1u << outs) - 1);
    for (int64_t i = 0; i < count; i++) {
        __m512 row = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), wanted, lines, &products[0][i], 4);
        _mm512_mask_storeu_ps(p->out + (r + i) * p->outs + first, wanted, row);
    }
}

/* All rows times some rows of the weight: `outs` from `first` on, and as many from `second` on. */
static void multiply_tiles(const Product *p, int64_t rows, int64_t first, int64_t second, int64_t outs) {
    const int8_t *weight = p->weight + first * p->size, *other = p->weight + second * p->size;
    int32_t sums[4][TILE_ROWS][TILE_ROWS];
    for (int64_t r = 0; r < rows; r += TILE_ROWS) {
        const int8_t *x = tiles_of(p->numbers, r, p->size);
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t k = 0; k < p->size; k += TILE_BYTES, x += 2 * TILE_ROWS * TILE_BYTES) {
            _tile_loadd(4, weight + k, p->size);
            _tile_loadd(5, other + k, p->size);
            if (r == 0)
                for (int64_t o = 0; o < 2 * outs; o++) _mm_prefetch(other + (outs + o) * p->size + k, _MM_HINT_T1);
            _tile_loadd(6, x, TILE_BYTES);
            _tile_dpbssd(0, 4, 6);
            _tile_dpbssd(2, 5, 6);
            _tile_loadd(7, x + TILE_ROWS * TILE_BYTES, TILE_BYTES);
            _tile_dpbsud(1, 4, 7);
            _tile_dpbsud(3, 5, 7);
        }
        int64_t count = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
        _tile_stored(0, sums[0], TILE_BYTES);
        _tile_stored(1, sums[1], TILE_BYTES);
        scale_tile(p, sums[0], sums[1], r, count, first, outs);
        _tile_stored(2, sums[2], TILE_BYTES);
        _tile_stored(3, sums[3], TILE_BYTES);
        scale_tile(p, sums[2], sums[3], r, count, second, outs);
    }
}

/* The last tile of the weight lies over the one before where its rows are no multiple of 16: both write the same. */
static void multiply_tiled_rows(const Product *p, int64_t rows) {
    int64_t outs = p->outs < TILE_ROWS ? p->outs : TILE_ROWS, last = p->outs - outs;
    configure_tiles(outs);
#pragma omp for schedule(static) nowait
    for (int64_t part = 0; part < p->outs; part += 2 * TILE_ROWS) {
        int64_t first = part < last ? part : last, second = part + TILE_ROWS < last ? part + TILE_ROWS : last;
        multiply_tiles(p, rows, first, second, outs);
    }
    _tile_release();
}
#else
static int is_tiled(int64_t rows, int64_t size) {
    (void)rows, (void)size;
    return 0;
}
static void tile_row(const float *row, int64_t r, int64_t size, float factor, int16_t *numbers) {
    (void)row, (void)r, (void)size, (void)factor, (void)numbers;
}
static void multiply_tiled_rows(const Product *p, int64_t rows) { (void)p, (void)rows; }
#endif
