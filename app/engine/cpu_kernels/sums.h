/* Sums of products of a packed weight's numbers with activations x, for each kind of processor. A call of `added` adds
   the products of four numbers of each row of the weight with four of x.

   `sum_of_x` returns the sum of x over a part of a group in all lanes: over 16 numbers, or over all 32 if the group has
   one part.

   `narrow` numbers are 0 to 63; their zero is subtracted at the beginning of a sum, as zero times the sum of x. Other
   numbers are -128 to 127. */

#if defined(__AVX512VNNI__) && LANES == 16
#define MOST_ROWS 8
#define EACH_COUNT(CASE, ...) \
    CASE(1, __VA_ARGS__) CASE(2, __VA_ARGS__) CASE(3, __VA_ARGS__) CASE(4, __VA_ARGS__) \
    CASE(5, __VA_ARGS__) CASE(6, __VA_ARGS__) CASE(7, __VA_ARGS__) CASE(8, __VA_ARGS__)
#define KEEP(sum) __asm__("" : "+v"(sum))
typedef __m512i Whole;

INLINE Whole four_of(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
}
INLINE Whole operand(words_n numbers, const int narrow) {
    return narrow ? (Whole)numbers : _mm512_xor_si512((Whole)numbers, _mm512_set1_epi8(-128));
}
INLINE Whole looked_up(words_n numbers, const int8_t *table) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table)), (Whole)numbers);
}
INLINE Whole factor(vni factors) { return (Whole)factors; }
/* Return the sum of x times a factor of 16 bits. It is computed in vectors, because copies from general registers take
   long. */
INLINE Whole times_x(const int16_t *sums, const int parts, int factor) {
    const Whole factors = _mm512_set1_epi16((int16_t)factor);
    Whole sum = _mm512_dpwssd_epi32(_mm512_setzero_si512(), four_of((const int8_t *)sums), factors);
    return parts == 1 ? _mm512_dpwssd_epi32(sum, four_of((const int8_t *)(sums + 2)), factors) : sum;
}
INLINE vni sum_of_x(const int16_t *sums, const int parts) { return (vni)times_x(sums, parts, 1); }
INLINE Whole begun(const int16_t *sums, const int parts, int zero, const int narrow) {
    return times_x(sums, parts, -(narrow ? zero : 128));
}
INLINE Whole added(Whole sum, Whole numbers, Whole x, Whole factors, const int narrow) {
    (void)factors, (void)narrow;
    return _mm512_dpbusd_epi32(sum, numbers, x);
}
INLINE Whole finished(Whole sum, Whole factors, int has_factors, const int narrow) {
    (void)narrow;
    return has_factors ? _mm512_mullo_epi32(sum, factors) : sum;
}
#elif (defined(__AVX512BW__) && LANES == 16) || (defined(__AVX2__) && LANES == 8)
#define MOST_ROWS 4
#define EACH_COUNT(CASE, ...) \
    CASE(1, __VA_ARGS__) CASE(2, __VA_ARGS__) CASE(3, __VA_ARGS__) CASE(4, __VA_ARGS__)
#define KEEP(sum) __asm__("" : "+v"(sum))
#if LANES == 16
typedef __m512i Whole;
#define EVERY_16_BYTES _mm512_broadcast_i32x4
#else
typedef __m256i Whole;
#define EVERY_16_BYTES _mm256_broadcastsi128_si256
#endif

INLINE Whole four_of(const int8_t *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return OP(set1_epi32)(four);
}
INLINE Whole operand(words_n numbers, const int narrow) {
    (void)narrow;
    return (Whole)numbers;
}
INLINE Whole looked_up(words_n numbers, const int8_t *table) {
    return OP(shuffle_epi8)(EVERY_16_BYTES(_mm_loadu_si128((const __m128i *)table)), (Whole)numbers);
}
/* Return each factor twice, in 16 bits, because a row of the weight has two sums of 16 bits. */
INLINE Whole factor(vni factors) {
    const __m128i twice = _mm_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    return OP(shuffle_epi8)((Whole)factors, EVERY_16_BYTES(twice));
}
INLINE vni sum_of_x(const int16_t *sums, const int parts) {
    const Whole ones = OP(set1_epi16)(1);
    Whole sum = OP(madd_epi16)(four_of((const int8_t *)sums), ones);
    if (parts == 1) sum = OP(add_epi32)(sum, OP(madd_epi16)(four_of((const int8_t *)(sums + 2)), ones));
    return (vni)sum;
}
/* With the zero subtracted (32 for 6 bits), sums of narrow numbers fit 16 bits: they are at most 8 * 127 * 32, or
   16 * 127 * 15 for numbers of 4 bits in one part. */
INLINE Whole begun(const int16_t *sums, const int parts, int zero, const int narrow) {
    int32_t first, second = 0;
    memcpy(&first, sums, sizeof first);
    if (parts == 1) memcpy(&second, sums + 2, sizeof second);
    Whole all = OP(add_epi16)(OP(set1_epi32)(first), OP(set1_epi32)(second));
    return OP(mullo_epi16)(all, OP(set1_epi16)(narrow ? (int16_t)-zero : 0));
}
/* Return x, or -x if the number is negative. */
INLINE Whole signed_as(Whole x, Whole numbers) {
#if LANES == 16
    return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(numbers), _mm512_setzero_si512(), x);
#else
    return _mm256_sign_epi8(x, numbers);
#endif
}
INLINE Whole added(Whole sum, Whole numbers, Whole x, Whole factors, const int narrow) {
    if (narrow) return OP(add_epi16)(sum, OP(maddubs_epi16)(numbers, x));
    Whole pairs = OP(maddubs_epi16)(OP(abs_epi8)(numbers), signed_as(x, numbers));
    return OP(add_epi32)(sum, OP(madd_epi16)(pairs, factors));
}
INLINE Whole finished(Whole sum, Whole factors, int has_factors, const int narrow) {
    (void)has_factors;
    return narrow ? OP(madd_epi16)(sum, factors) : sum;
}
#else
#define MOST_ROWS 1
#define EACH_COUNT(CASE, ...) CASE(1, __VA_ARGS__)
#define KEEP(sum) (void)(sum)
typedef vni Whole;
typedef int8_t signed_n __attribute__((vector_size(QUAD * LANES), aligned(1), may_alias));

INLINE signed_n four_of(const int8_t *x) {
    signed_n found;
    for (int i = 0; i < QUAD * LANES; i++) found[i] = x[i % QUAD];
    return found;
}
INLINE signed_n operand(words_n numbers, const int narrow) {
    (void)narrow;
    return (signed_n)numbers;
}
INLINE words_n looked_up(words_n numbers, const int8_t *table) {
    signed_n found = (signed_n)numbers;
    for (int i = 0; i < QUAD * LANES; i++) found[i] = table[found[i]];
    return (words_n)found;
}
INLINE Whole factor(vni factors) { return factors; }
INLINE vni sum_of_x(const int16_t *sums, const int parts) {
    return (vni){0} + (sums[0] + sums[1] + (parts == 1 ? sums[2] + sums[3] : 0));
}
INLINE Whole begun(const int16_t *sums, const int parts, int zero, const int narrow) {
    return -(narrow ? zero : 0) * sum_of_x(sums, parts);
}
INLINE Whole added(Whole sum, signed_n numbers, signed_n x, Whole factors, const int narrow) {
    (void)factors, (void)narrow;
    for (int i = 0; i < QUAD * LANES; i++) sum[i / QUAD] += numbers[i] * x[i];
    return sum;
}
INLINE Whole finished(Whole sum, Whole factors, int has_factors, const int narrow) {
    (void)has_factors, (void)narrow;
    return sum * factors;
}
#endif
