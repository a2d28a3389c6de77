/* Products of rows of activations with a packed weight, tile by tile. */

/* Quantised rows of activations. */
typedef struct {
    int8_t *numbers;     /* [rows, groups * GROUP] */
    float *scale;        /* [rows, groups] */
    int16_t (*sums)[2];  /* [rows, groups * 2]: for each 16 numbers, the sums of each quad's first two and last two numbers */
} Bytes;

/* A product with a weight, or with one of the matrices of a stack: the tiles from `first` to `end`. */
typedef struct {
    const Packed *weight;
    Bytes x;
    float *out; /* [rows, outs] */
    int64_t first, end;
} Product;

#define GROUPS_AT_ONCE 64 /* groups of a tile that are multiplied by up to MANY rows before further groups are read */
#define MANY 60           /* maximum number of rows whose sums with a tile are kept in memory */
#define AHEAD 8192        /* distance in bytes of the numbers that are prefetched for steps of one or two rows */

/* The format of a tile's numbers, and the number of parts in which a group is summed; all are known to the compiler. */
typedef struct {
    int low, high, narrow, has_table, parts;
} Form;

/* Sum the products of `rows` rows, a constant, with the group of a tile whose numbers are at `numbers`. For one or two
   rows, which wait for memory, also prefetch the numbers that are AHEAD bytes further. */
INLINE void sum_group(
    const Product *p, int64_t r, const int rows, int64_t tile, int64_t group, const Form form, const uint8_t *numbers,
    vni found[][HALVES]
) {
    const Packed *w = p->weight;
    const int8_t *x = p->x.numbers + (r * w->groups + group) * GROUP;
    const int16_t *sums = (const int16_t *)(p->x.sums + (r * w->groups + group) * 2);
    const int64_t size = TILE_BYTES / 8 * (form.low + form.high);
    if (rows <= 2)
        for (int64_t line = 0; line < size; line += 64) __builtin_prefetch(numbers + AHEAD + line);
    UNROLLED
    for (int part = 0; part < form.parts; part++) {
        Whole factors[HALVES], some[MOST_ROWS][HALVES];
        UNROLLED
        for (int half = 0; half < HALVES; half++)
            factors[half] = factor(factors_of(w, w->factors, tile * w->groups + group, part, half));
        UNROLLED
        for (int i = 0; i < rows; i++)
            UNROLLED
            for (int half = 0; half < HALVES; half++)
                some[i][half] = begun(sums + i * w->groups * 4 + 2 * part, form.parts, w->zero, form.narrow);
        UNROLLED
        for (int quad = part * QUADS / form.parts; quad < (part + 1) * QUADS / form.parts; quad++) {
            words_n weight[HALVES];
            UNROLLED
            for (int half = 0; half < HALVES; half++) {
                weight[half] = stored(numbers, form.low, form.high, quad, half);
                if (form.has_table) weight[half] = (words_n)looked_up(weight[half], w->table);
            }
            UNROLLED
            for (int i = 0; i < rows; i++)
                UNROLLED
                for (int half = 0; half < HALVES; half++) {
                    some[i][half] = added(
                        some[i][half], operand(weight[half], form.narrow),
                        four_of(x + i * w->groups * GROUP + quad * QUAD), factors[half], form.narrow
                    );
                    KEEP(some[i][half]);
                }
        }
        UNROLLED
        for (int i = 0; i < rows; i++)
            UNROLLED
            for (int half = 0; half < HALVES; half++) {
                vni whole = (vni)finished(some[i][half], factors[half], w->factors != NULL, form.narrow);
                found[i][half] = part ? found[i][half] + whole : whole;
            }
    }
}

/* The sums of a row with a tile: `total` is complete up to the latest scale; `inner` is not yet multiplied by the next
   scale, nor `shift` by the next offset. */
typedef struct {
    float total[OUTS], inner[OUTS], shift[OUTS];
} Sum;

/* Add the products of `rows` rows with the groups `first` to `last` - 1 of a tile, each of which has a scale and no
   offset, to the totals of `sums`. */
INLINE void multiply_single_groups(
    const Product *p, int64_t r, const int rows, int64_t tile, int64_t first, int64_t last, const Form form,
    const uint8_t *numbers, Sum *sums
) {
    const Packed *w = p->weight;
    const int64_t step = TILE_BYTES / 8 * (form.low + form.high);
    vn total[MOST_ROWS][HALVES];
    UNROLLED
    for (int i = 0; i < rows; i++)
        for (int half = 0; half < HALVES; half++) total[i][half] = load_n(sums[i].total + half * LANES);
    for (int64_t group = first; group < last; group++, numbers += step) {
        vni found[MOST_ROWS][HALVES];
        const float *scale = p->x.scale + r * w->groups + group;
        sum_group(p, r, rows, tile, group, form, numbers, found);
        UNROLLED
        for (int half = 0; half < HALVES; half++) {
            vn scales = scales_of(w, w->scale, (tile * w->groups + group) * OUTS + half * LANES);
            UNROLLED
            for (int i = 0; i < rows; i++) {
                vn product = __builtin_convertvector(found[i][half], vn) * all_n(scale[i * w->groups]);
                total[i][half] = fused_n(product, scales, total[i][half]);
            }
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++)
        for (int half = 0; half < HALVES; half++) store_n(sums[i].total + half * LANES, total[i][half]);
}

/* Add the products of `rows` rows with the groups `first` to `last` - 1 of a tile to `sums`. */
INLINE void multiply_groups(
    const Product *p, int64_t r, const int rows, int64_t tile, int64_t first, int64_t last, const Form form,
    const uint8_t *numbers, Sum *sums
) {
    const Packed *w = p->weight;
    const int64_t step = TILE_BYTES / 8 * (form.low + form.high);
    int64_t left = w->per - first % w->per, at = (tile * w->groups + first) / w->per * OUTS;
    vn inner[MOST_ROWS][HALVES], shifts[MOST_ROWS][HALVES];
    UNROLLED
    for (int i = 0; i < rows; i++)
        for (int half = 0; half < HALVES; half++) {
            inner[i][half] = load_n(sums[i].inner + half * LANES);
            shifts[i][half] = load_n(sums[i].shift + half * LANES);
        }
    for (int64_t group = first; group < last; group++, numbers += step) {
        vni found[MOST_ROWS][HALVES];
        const float *scale = p->x.scale + r * w->groups + group;
        sum_group(p, r, rows, tile, group, form, numbers, found);
        UNROLLED
        for (int i = 0; i < rows; i++)
            UNROLLED
            for (int half = 0; half < HALVES; half++)
                inner[i][half] = fused_n(
                    __builtin_convertvector(found[i][half], vn), all_n(scale[i * w->groups]), inner[i][half]
                );
        if (w->offset)
            for (int part = 0; part < form.parts; part++)
                for (int half = 0; half < HALVES; half++) {
                    vni factors = factors_of(w, w->offset_factors, tile * w->groups + group, part, half);
                    vn offsets = __builtin_convertvector(factors, vn);
                    UNROLLED
                    for (int i = 0; i < rows; i++) {
                        const int16_t *sums = p->x.sums[((r + i) * w->groups + group) * 2 + part];
                        vn sum = __builtin_convertvector(sum_of_x(sums, form.parts), vn);
                        shifts[i][half] = fused_n(offsets, sum * all_n(scale[i * w->groups]), shifts[i][half]);
                    }
                }
        if (--left) continue;
        left = w->per;
        UNROLLED
        for (int half = 0; half < HALVES; half++) {
            vn scales = scales_of(w, w->scale, at + half * LANES);
            vn offsets = w->offset ? scales_of(w, w->offset, at + half * LANES) : all_n(0);
            UNROLLED
            for (int i = 0; i < rows; i++) {
                vn total = fused_n(inner[i][half], scales, load_n(sums[i].total + half * LANES));
                if (w->offset) total = fused_n(shifts[i][half], offsets, total);
                store_n(sums[i].total + half * LANES, total);
                inner[i][half] = shifts[i][half] = all_n(0);
            }
        }
        at += OUTS;
    }
    UNROLLED
    for (int i = 0; i < rows; i++)
        for (int half = 0; half < HALVES; half++) {
            store_n(sums[i].inner + half * LANES, inner[i][half]);
            store_n(sums[i].shift + half * LANES, shifts[i][half]);
        }
}

static void write_out(const Product *p, int64_t r, int64_t rows, int64_t tile, const Sum *sums) {
    const Packed *w = p->weight;
    int64_t first = tile * OUTS, begin = p->first * OUTS, end = p->end * OUTS < w->outs ? p->end * OUTS : w->outs;
    int64_t count = end - first < OUTS ? end - first : OUTS;
    for (int64_t i = 0; i < rows; i++) {
        float *out = p->out + (r + i) * (end - begin) + first - begin;
        if (w->bias)
            for (int64_t o = 0; o < count; o++) out[o] = sums[i].total[o] + w->bias[first + o];
        else memcpy(out, sums[i].total, count * sizeof *out);
    }
}

/* The formats of weights: a name, low and high bits, whether numbers are narrow, whether they have a table, and the
   parts of a group. A group of `four` has one part, because the sums of its products fit 16 bits. `four_fine` has
   factors for 16 numbers and therefore two parts. */
#define EACH_FORM(FORM) \
    FORM(two, 2, 0, 1, 0, 2) FORM(three, 2, 1, 1, 0, 2) FORM(four, 4, 0, 1, 0, 1) FORM(four_fine, 4, 0, 1, 0, 2) \
    FORM(five, 4, 1, 1, 0, 2) FORM(six, 4, 2, 1, 0, 2) FORM(eight, 8, 0, 0, 0, 2) FORM(table, 4, 0, 0, 1, 2) \
    FORM(three_table, 2, 1, 0, 1, 2)

/* One function for each form and count of rows, because a single function for all takes long to compile. */
#define COUNT(count, name, low, high, narrow, has_table, parts) \
    static __attribute__((noinline)) void name##_##count( \
        const Product *p, int64_t r, int64_t tile, int64_t first, int64_t last, Sum *sums \
    ) { \
        const uint8_t *numbers = p->weight->numbers + (tile * p->weight->groups + first) * TILE_BYTES / 8 * (low + high); \
        const Form form = {low, high, narrow, has_table, parts}; \
        if (p->weight->per == 1 && !p->weight->offset) \
            multiply_single_groups(p, r, count, tile, first, last, form, numbers, sums); \
        else multiply_groups(p, r, count, tile, first, last, form, numbers, sums); \
    }
#define FORM(...) EACH_COUNT(COUNT, __VA_ARGS__)
EACH_FORM(FORM)
#undef COUNT
#undef FORM

/* A format, and its functions for 1, 2, ... MOST_ROWS rows. */
typedef struct {
    int low, high, has_table, parts;
    void (*multiply[MOST_ROWS])(const Product *, int64_t, int64_t, int64_t, int64_t, Sum *);
} Functions;

#define COUNT(count, name, ...) name##_##count,
#define FORM(name, low, high, narrow, has_table, parts) \
    {low, high, has_table, parts, {EACH_COUNT(COUNT, name, )}},
static const Functions FUNCTIONS[] = {EACH_FORM(FORM)};
#undef COUNT
#undef FORM

static const Functions *functions_of(const Packed *w) {
    const Functions *f = FUNCTIONS;
    while (f->low != w->low || f->high != w->high || f->has_table != (w->table != NULL) || f->parts < 1 + w->fine) f++;
    return f;
}

/* Multiply up to MANY rows by a tile. */
static void multiply_tile(const Product *p, const Functions *f, int64_t r, int64_t rows, int64_t tile) {
    const int64_t groups = p->weight->groups, parts = (rows + MOST_ROWS - 1) / MOST_ROWS;
    const int64_t chunk = parts == 1 ? groups : GROUPS_AT_ONCE;
    Sum sums[MANY];
    memset(sums, 0, rows * sizeof *sums);
    for (int64_t first = 0; first < groups; first += chunk) {
        int64_t last = first + chunk < groups ? first + chunk : groups;
        for (int64_t part = 0; part < parts; part++) {
            int64_t begin = rows * part / parts, count = rows * (part + 1) / parts - begin;
            f->multiply[count - 1](p, r + begin, tile, first, last, sums + begin);
        }
    }
    write_out(p, r, rows, tile, sums);
}

/* Multiply the rows from `begin` to `end` by one tile after the other, because a tile stays in the processor's cache.
   The threads do not wait for each other at the end. */
static void multiply_rows(const Product *p, int64_t begin, int64_t end) {
    const Functions *f = functions_of(p->weight);
#pragma omp for schedule(static) nowait
    for (int64_t tile = p->first; tile < p->end; tile++)
        for (int64_t r = begin; r < end; r += MANY) multiply_tile(p, f, r, end - r < MANY ? end - r : MANY, tile);
}

/* Convert GROUP activations to bytes, and write their scale and sums. */
static void quantise_group(const float *from, int8_t *numbers, float *scale, int16_t (*sums)[2]) {
    v8 most = all(0);
    for (int i = 0; i < GROUP; i += 8) most = at_least((v8)((v8i)load(from + i) & 0x7fffffff), most);
    float largest = largest_of(most), factor = largest > 0 ? 127 / largest : 0;
    v8i whole[4];
    for (int i = 0; i < 4; i++) /* adding 1.5 * 2^23 rounds to a whole number */
        whole[i] = (v8i)(load(from + 8 * i) * factor + 12582912.0f) - 0x4b400000;
    *scale = largest / 127;
#if defined(__AVX2__)
    __m256i low = _mm256_packs_epi32((__m256i)whole[0], (__m256i)whole[1]);
    __m256i high = _mm256_packs_epi32((__m256i)whole[2], (__m256i)whole[3]);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    _mm256_storeu_si256((__m256i *)numbers, bytes);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
    pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
    int32_t first = _mm256_extract_epi32(pairs, 0), second = _mm256_extract_epi32(pairs, 4);
    memcpy(sums[0], &first, sizeof first), memcpy(sums[1], &second, sizeof second);
#else
    memset(sums, 0, 2 * sizeof *sums);
    for (int i = 0; i < GROUP; i++) {
        numbers[i] = (int8_t)whole[i / 8][i % 8];
        sums[i / 16][i / 2 % 2] += numbers[i];
    }
#endif
}

/* Quantise row `r` of `size` values. */
static void quantise_row(const float *row, int64_t r, int64_t size, const Bytes *to) {
    int64_t groups = (size + GROUP - 1) / GROUP;
    for (int64_t group = 0; group < groups; group++, row += GROUP) {
        int64_t at = r * groups + group, rest = size - group * GROUP;
        float last[GROUP] = {0};
        const float *from = row;
        if (rest < GROUP) from = memcpy(last, row, rest * sizeof *row);
        quantise_group(from, to->numbers + at * GROUP, to->scale + at, to->sums + 2 * at);
    }
}

static int64_t rows_room(int64_t rows, int64_t size) { return rows * ((size + GROUP - 1) / GROUP) * (GROUP / 4 + 3); }

/* Divide `rows_room` floats of memory into the arrays of quantised rows. */
static Bytes bytes_at(float *room, int64_t rows, int64_t size) {
    int64_t groups = rows * ((size + GROUP - 1) / GROUP);
    return (Bytes){(int8_t *)(room + 3 * groups), room, (int16_t(*)[2])(room + groups)};
}

/* ---- for layer.h ---- */

typedef Packed Linear;

static void quantise_for(const Linear *l, const float *row, int64_t r, int64_t rows, float *room) {
    const Bytes bytes = bytes_at(room, rows, l->size);
    quantise_row(row, r, l->size, &bytes);
}

static void linear(const Linear *l, float *room, int64_t rows, float *out) {
    Product product = {l, bytes_at(room, rows, l->size), out, 0, (l->outs + OUTS - 1) / OUTS};
    multiply_rows(&product, 0, rows);
}

/* Multiply x [rows, size] by a weight, and write the products to out [rows, outs]. `room` has `rows_room` floats. */
void packed_linear(const Packed *weight, const float *x, int64_t rows, float *room, float *out, int32_t threads) {
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) quantise_for(weight, x + r * weight->size, r, rows, room);
        linear(weight, room, rows, out);
    }
}
