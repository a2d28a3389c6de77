/* Products of packed weights: integers of 2 to 8 bits, with a scale for each group of neighbours in a row.

       weight = (number - zero) * factor * scale + offset_factor * offset

   With a `table`, table[number] replaces number - zero. Every row of activations is converted to bytes; 32 neighbours
   share a scale. Sums of 32 products are integers, so they are exact; they are scaled and added in the order of the
   row. So a row's result does not depend on other rows.

   A weight is stored in the order in which it is read: tiles of OUTS rows; in a tile, groups of GROUP columns; in a
   group, QUADS vectors with QUAD numbers of each row. Numbers of fewer than 8 bits are stored in planes: `low` bits of
   each number, then `high` bits. A plane of F bits has F vectors of 64 bytes, and vector i holds the quads i, i + F,
   i + 2F, … one after the other in the bits of each byte. */

#define OUTS 16
#define GROUP 32
#define QUAD 4
#define QUADS 8
#define HALVES (OUTS / LANES)
#define UNROLLED _Pragma("GCC unroll 8") /* without it the compiler keeps sums in memory */
#define INLINE static inline __attribute__((always_inline))

/* `packed_weight.py` has the same structure. */
typedef struct {
    const uint8_t *numbers;       /* [tiles, groups, (low + high) * 64] */
    const int8_t *factors;        /* [tiles, groups, OUTS], if `fine` [tiles, groups, 2, OUTS]; NULL: all are 1 */
    const int8_t *offset_factors; /* of the same shape */
    const void *scale, *offset;   /* [tiles, groups / per, OUTS]; the offset may be NULL */
    const int8_t *table;          /* the 16 values of stored numbers of 3 or 4 bits, or NULL */
    const float *bias;            /* or NULL */
    int64_t size, outs, groups;
    int32_t low, high, zero;
    int32_t per;              /* groups that share a scale */
    int32_t fine, is_half;    /* whether factors are for 16 numbers, and scales have 16 bits */
} Packed;

#define TILE_BYTES (QUADS * QUAD * OUTS)

typedef uint16_t words_n __attribute__((vector_size(QUAD * LANES), aligned(1), may_alias));

/* Return the bits of a quad in a plane of `bits` bits, shifted to bit `to`. All arguments but the first are constants. */
INLINE words_n field(const uint8_t *plane, const int bits, const int quad, const int half, const int to) {
    const int shift = bits * (quad / bits) - to;
    words_n all = *(const words_n *)(plane + (quad % bits * HALVES + half) * QUAD * LANES);
    words_n mask = (words_n){0} + (uint16_t)((((1 << bits) - 1) << to) * 257);
    all = shift >= 0 ? all >> (shift & 15) : all << (-shift & 15);
    return all & mask;
}

/* Return the stored numbers of a quad, for half of a tile's rows. Numbers of 8 bits have one plane, `low`. */
INLINE words_n stored(const uint8_t *group, const int low, const int high, const int quad, const int half) {
    if (low == 8) return *(const words_n *)(group + (quad * HALVES + half) * QUAD * LANES);
    words_n numbers = field(group, low, quad, half, 0);
    if (high) numbers |= field(group + TILE_BYTES / 8 * low, high, quad, half, low);
    return numbers;
}

/* Return the factors of half of a tile's rows for a group or, if `fine`, for half of a group (`part`). */
INLINE vni factors_of(const Packed *w, const int8_t *factors, int64_t group, const int part, const int half) {
    if (!factors) return (vni){0} + 1;
    factors += (w->fine ? 2 * group + part : group) * OUTS + half * LANES;
#if LANES == 16
    return (vni)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)factors));
#elif defined(__AVX2__)
    return (vni)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)factors));
#else
    vni found;
    for (int i = 0; i < LANES; i++) found[i] = factors[i];
    return found;
#endif
}

static float half_float(uint16_t bits) {
    uint32_t whole = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16;
    float value;
    memcpy(&value, &whole, sizeof value);
    value *= 0x1p112f;
    memcpy(&whole, &value, sizeof whole);
    if ((bits & 0x7c00) == 0x7c00) whole |= 0x7f800000; /* infinite, or not a number */
    whole |= sign;
    memcpy(&value, &whole, sizeof value);
    return value;
}

static float scale_at(const Packed *w, const void *scales, int64_t at) {
    return w->is_half ? half_float(((const uint16_t *)scales)[at]) : ((const float *)scales)[at];
}

INLINE vn scales_of(const Packed *w, const void *scales, int64_t at) {
    if (!w->is_half) return load_n((const float *)scales + at);
    const uint16_t *halves = (const uint16_t *)scales + at;
#if LANES == 16
    return (vn)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves));
#elif defined(__F16C__)
    return (vn)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves));
#else
    vn found;
    for (int i = 0; i < LANES; i++) found[i] = half_float(halves[i]);
    return found;
#endif
}

/* Dequantise the weight's rows with these ids to out [count, size]. */
void packed_rows(const Packed *w, const int64_t *ids, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++, out += w->size)
        for (int64_t k = 0; k < w->size; k++) {
            int64_t place = ids[i] / OUTS * w->groups + k / GROUP, o = ids[i] % OUTS, quad = k % GROUP / QUAD;
            const uint8_t *group = w->numbers + place * (TILE_BYTES / 8) * (w->low + w->high) + o * QUAD + k % QUAD;
            int number = group[quad % w->low * 64] >> (w->low * (quad / w->low)) & ((1 << w->low) - 1);
            if (w->low == 8) number = (int8_t)number;
            if (w->high) {
                const uint8_t *plane = group + TILE_BYTES / 8 * w->low + quad % w->high * 64;
                number |= (*plane >> (w->high * (quad / w->high)) & ((1 << w->high) - 1)) << w->low;
            }
            number = w->table ? w->table[number] : number - w->zero;
            int64_t factor = (w->fine ? 2 * place + k % GROUP / 16 : place) * OUTS + o;
            float scale = scale_at(w, w->scale, place / w->per * OUTS + o);
            if (w->factors) scale *= w->factors[factor];
            float value = scale * number;
            if (w->offset) {
                float offset = scale_at(w, w->offset, place / w->per * OUTS + o);
                value += w->offset_factors ? offset * w->offset_factors[factor] : offset;
            }
            out[k] = value;
        }
}

/* Some bits of a row's numbers, as blocks store them: in a block each run of bytes has first the lowest bits of every
   byte, then the bits above. `packed_weight.py` has the same structure. */
typedef struct {
    const uint8_t *bytes;
    int64_t row, block;       /* bytes from row to row, and from block to block */
    int32_t width, run, bits; /* bytes of a block and of a run, and bits of each number */
} Fields;

#define AT_ONCE 256 /* numbers of a row that are packed at a time: one block or several */

typedef uint16_t words_8 __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint16_t words_32 __attribute__((vector_size(64), aligned(1), may_alias));

/* The lowest bits of both bytes of a word. */
static uint16_t lowest(int bits) { return (uint16_t)(((1 << bits) - 1) * 257); }

/* Add the bits of `count` blocks to `numbers`, shifted to bit `to`. */
static void unpack_blocks(const Fields *f, const uint8_t *bytes, int64_t count, int to, uint8_t *numbers) {
    const uint16_t mask = lowest(f->bits);
    for (; count; count--, bytes += f->block)
        for (const uint8_t *from = bytes; from < bytes + f->width; from += f->run)
            for (int bit = 0; bit < 8; bit += f->bits, numbers += f->run) {
                int i = 0;
                for (; i + 16 <= f->run; i += 16)
                    *(words_8 *)(numbers + i) |= (*(const words_8 *)(from + i) >> bit & mask) << to;
                for (; i < f->run; i++) numbers[i] |= (uint8_t)((from[i] >> bit & mask & 255) << to);
            }
}

/* Write `bits` planes of a group's numbers, which contain the numbers' bits from `from` to `from + bits`. */
static void write_planes(const words_32 *quads, int from, int bits, words_32 *planes) {
    for (int i = 0; i < bits; i++) {
        words_32 plane = {0};
        for (int quad = i; quad < QUADS; quad += bits)
            plane |= (quads[quad] >> from & lowest(bits)) << (quad - i);
        planes[i] = plane;
    }
}

/* Pack rows of `blocks` blocks into tiles. Each of `count` fields has more bits of the numbers than those before it. */
void pack_tiles(
    const Fields *fields, int32_t count, int64_t rows, int64_t blocks, int32_t low, int32_t high, uint8_t *to
) {
    const int64_t size = fields->width * 8 / fields->bits, most = AT_ONCE / size;
    words_32 quads[AT_ONCE / QUAD], *plane = (words_32 *)to;
    for (int64_t tile = 0; tile < rows; tile += OUTS)
        for (int64_t block = 0; block < blocks; block += most) {
            const int64_t some = blocks - block < most ? blocks - block : most;
            for (int64_t o = 0; o < OUTS; o++) {
                uint8_t numbers[AT_ONCE] = {0};
                for (int i = 0, bit = 0; i < count && tile + o < rows; bit += fields[i++].bits) {
                    const uint8_t *bytes = fields[i].bytes + (tile + o) * fields[i].row + block * fields[i].block;
                    unpack_blocks(fields + i, bytes, some, bit, numbers);
                }
                uint8_t *quad_of_row = (uint8_t *)quads + o * QUAD;
                for (int64_t k = 0; k < some * size; k += GROUP)
                    UNROLLED for (int64_t quad = 0; quad < QUADS; quad++, quad_of_row += OUTS * QUAD)
                        memcpy(quad_of_row, numbers + k + quad * QUAD, QUAD);
            }
            for (int64_t quad = 0; quad < some * size / QUAD; quad += QUADS, plane += low + high) {
                write_planes(quads + quad, 0, low, plane);
                write_planes(quads + quad, low, high, plane + low);
            }
        }
}
