/* Products of 8-bit weights by a processor's matrix unit (AMX): 16 rows times 16 rows of the weight at a time.

   The unit multiplies bytes, so the high and the low bytes of a row have separate sums, as in `multiply_group`. */

#define TILE_ROWS 16 /* rows of a tile */

#if defined(__AMX_INT8__) && defined(__AVX512VNNI__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#define FEWEST_ROWS 2 /* a single row waits for memory, so `multiply_group` is as fast */
#define REQUEST_PERMISSION 0x1023
#define TILE_DATA 18

static int may_use_tiles;

/* On Linux each process must ask for permission to use the tiles. */
__attribute__((constructor)) static void request_tiles(void) {
    may_use_tiles = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

static int is_tiled(int64_t rows) { return may_use_tiles && rows >= FEWEST_ROWS; }

/* Tiles 0 to 3 hold sums, 4 and 5 the weight, 6 and 7 the rows. */
static void configure_tiles(void) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t width[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.width[i] = BLOCK, config.rows[i] = TILE_ROWS;
    __asm__ volatile("" : : "r"(&config) : "memory"); /* `config` must be in memory before it is loaded */
    _tile_loadconfig(&config);
}

static void scale_tile(
    const Product *p, const __m512i *high, const __m512i *low, int64_t r, int64_t count, int64_t group
) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t sums[GROUP];
        _mm512_storeu_si512(sums, _mm512_add_epi32(_mm512_slli_epi32(high[i], 8), low[i]));
        scale_sums(p, r + i, group, sums);
    }
}

/* Multiply all rows by two groups of the weight's rows, which may be the same group. */
static void multiply_tiles(const Product *p, int64_t rows, int64_t group, int64_t second) {
    const uint8_t *weight = p->weight + group * GROUP * p->size, *other = p->weight + second * GROUP * p->size;
    __m512i sums[4][TILE_ROWS];
    for (int64_t r = 0; r < rows; r += TILE_ROWS) {
        const int8_t *x = (const int8_t *)(p->numbers + r * p->size);
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t k = 0; k < p->size; k += BLOCK) {
            _tile_loadd(4, weight + k * GROUP, BLOCK);
            _tile_loadd(5, other + k * GROUP, BLOCK);
            if (r == 0)
                for (int64_t line = 0; line < 2 * BLOCK * GROUP; line += BLOCK)
                    _mm_prefetch(weight + 2 * (k + p->size) * GROUP + line, _MM_HINT_T1);
            _tile_loadd(6, x + k, 2 * p->size);
            _tile_dpbsud(0, 6, 4);
            _tile_dpbsud(2, 6, 5);
            _tile_loadd(7, x + p->size + k, 2 * p->size);
            _tile_dpbsud(1, 7, 4);
            _tile_dpbsud(3, 7, 5);
        }
        int64_t count = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
        _tile_stored(0, sums[0], BLOCK);
        _tile_stored(1, sums[1], BLOCK);
        scale_tile(p, sums[0], sums[1], r, count, group);
        _tile_stored(2, sums[2], BLOCK);
        _tile_stored(3, sums[3], BLOCK);
        scale_tile(p, sums[2], sums[3], r, count, second);
    }
}

static void multiply_tiled_rows(const Product *p, int64_t rows) {
    int64_t groups = (p->outs + GROUP - 1) / GROUP;
    configure_tiles();
#pragma omp for schedule(static) nowait
    for (int64_t group = 0; group < groups; group += 2)
        multiply_tiles(p, rows, group, group + 1 < groups ? group + 1 : group);
    _tile_release();
}
#else
static int is_tiled(int64_t rows) {
    (void)rows;
    return 0;
}
static void multiply_tiled_rows(const Product *p, int64_t rows) { (void)p, (void)rows; }
#endif
