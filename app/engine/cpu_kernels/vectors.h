/* Vectors of 8 floats (`v8`), vectors of 16 floats with AVX-512 and else of 8 (`vn`), and their exp. */

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

/* a * b + sum, rounded once if the processor can. No other operations are fused (-ffp-contract=off). */
static inline v8 fused(v8 a, v8 b, v8 sum) {
#if defined(__FMA__)
    return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
#else
    return a * b + sum;
#endif
}

#define LARGER(x, bound, ints) (((ints)(x) & ((x) > (bound))) | ((ints)(bound) & ~((x) > (bound))))

static inline v8 at_least(v8 x, v8 bound) { return (v8)LARGER(x, bound, v8i); }

static inline float sum_of(v8 x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

static float largest_of(v8 x) {
    float most = x[0];
    for (int i = 1; i < 8; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* exp as 2^n times a polynomial of the rest (Cephes' coefficients); off by at most two units in the last place. Numbers
   below -87 and above 88 are replaced by these bounds. */
#define EXP_OF(name, vector, ints, times_plus) \
    static inline vector name(vector x) { \
        vector none = {0}, high = none - 88.0f, low = none - 87.0f; \
        x = -(vector)LARGER(-x, high, ints); \
        x = (vector)LARGER(x, low, ints); \
        vector n = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f; \
        vector r = x - n * 0.693359375f - n * -2.12194440e-4f; \
        vector p = times_plus(none + 1.9875691500e-4f, r, none + 1.3981999507e-3f); \
        p = times_plus(p, r, none + 8.3334519073e-3f); \
        p = times_plus(p, r, none + 4.1665795894e-2f); \
        p = times_plus(p, r, none + 1.6666665459e-1f); \
        p = times_plus(p, r, none + 5.0000001201e-1f); \
        p = times_plus(p, r * r, r) + 1.0f; \
        ints power = (__builtin_convertvector(n, ints) + 127) << 23; \
        return p * (vector)power; \
    }

EXP_OF(exp_of, v8, v8i, fused)

#if defined(__AVX512F__)
#define LANES 16
#define OP(name) _mm512_##name
typedef float vn __attribute__((vector_size(64), aligned(4)));
typedef int32_t vni __attribute__((vector_size(64), aligned(4)));
typedef __m512 quads;
static inline vn all_n(float value) { return (vn)_mm512_set1_ps(value); }
static inline vn fused_n(vn a, vn b, vn sum) { return (vn)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum); }
static inline float sum_of_n(vn x) {
    union { vn whole; v8 half[2]; } both = {x};
    return sum_of(both.half[0] + both.half[1]);
}
static inline float largest_of_n(vn x) {
    union { vn whole; v8 half[2]; } both = {x};
    return largest_of(at_least(both.half[0], both.half[1]));
}
EXP_OF(exp_of_n, vn, vni, fused_n)
#else
#define LANES 8
#define OP(name) _mm256_##name
typedef v8 vn;
typedef v8i vni;
#if defined(__AVX2__)
typedef __m256 quads;
#endif
#define all_n all
#define fused_n fused
#define exp_of_n exp_of
#define sum_of_n sum_of
#define largest_of_n largest_of
#endif

static inline vn load_n(const float *from) { return *(const vn *)from; }
static inline void store_n(float *to, vn values) { *(vn *)to = values; }

#if defined(__AVX2__)
/* Load four floats, from index `at` on, of the rows 0, 4, ... of LANES rows. */
static inline quads quads_of(const float *const *rows, int64_t at) {
#if LANES == 16
    __m512 x = _mm512_castps128_ps512(_mm_loadu_ps(rows[0] + at));
    x = _mm512_insertf32x4(x, _mm_loadu_ps(rows[4] + at), 1);
    x = _mm512_insertf32x4(x, _mm_loadu_ps(rows[8] + at), 2);
    return _mm512_insertf32x4(x, _mm_loadu_ps(rows[12] + at), 3);
#else
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(rows[0] + at)), _mm_loadu_ps(rows[4] + at), 1);
#endif
}
#endif
