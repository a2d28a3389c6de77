/* Eight floats at a time, and exp of them. */

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
