/* Norms, gates, rotary embeddings. */

/* Write total = x + others, and out = the RMSNorm of the total times the weight or, if `adds_one`, times one plus the
   weight. If `others` is NULL, x is normalised and no total is written. */
void rms_norm(
    const float *x, const float *others, const float *weight, int64_t rows, int64_t size, float eps,
    int32_t adds_one, float *total, float *out
) {
    for (int64_t r = 0; r < rows; r++, x += size, total += size, out += size) {
        const float *row = x;
        if (others) {
            for (int64_t i = 0; i < size; i++) total[i] = x[i] + others[i];
            row = total;
            others += size;
        }
        v8 squares[4] = {all(0), all(0), all(0), all(0)};
        int64_t i = 0;
        for (; i + 32 <= size; i += 32)
            for (int j = 0; j < 4; j++) squares[j] = fused(load(row + i + 8 * j), load(row + i + 8 * j), squares[j]);
        float sum = sum_of((squares[0] + squares[1]) + (squares[2] + squares[3]));
        for (; i < size; i++) sum += row[i] * row[i];
        float factor = 1.0f / sqrtf(sum / size + eps);
        if (adds_one)
            for (i = 0; i < size; i++) out[i] = row[i] * factor * (1.0f + weight[i]);
        else
            for (i = 0; i < size; i++) out[i] = row[i] * factor * weight[i];
    }
}

static inline v8 gated(v8 gate, v8 up, int32_t is_gelu) {
    if (!is_gelu) return gate / (1.0f + exp_of(-gate)) * up;
    v8 inner = 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate);
    /* (1 + tanh y) / 2 equals the logistic function of 2 y */
    return gate / (1.0f + exp_of(-2.0f * inner)) * up;
}

static void activate(
    const float *gate, int64_t gate_stride, const float *up, int64_t up_stride, int64_t rows, int64_t size,
    int32_t is_gelu, float *out
) {
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *g = gate + r * gate_stride, *u = up + r * up_stride;
        float *to = out + r * size;
        int64_t i = 0;
        for (; i + 8 <= size; i += 8) store(to + i, gated(load(g + i), load(u + i), is_gelu));
        if (i < size) {
            float a[8] = {0}, b[8] = {0};
            memcpy(a, g + i, (size - i) * sizeof(float));
            memcpy(b, u + i, (size - i) * sizeof(float));
            store(a, gated(load(a), load(b), is_gelu));
            memcpy(to + i, a, (size - i) * sizeof(float));
        }
    }
}

/* Write out = GELU(gate) * up (the tanh approximation) if `is_gelu`, else SiLU(gate) * up. The strides are those of the
   rows of gate and up. */
void gated_activation(
    const float *gate, int64_t gate_stride, const float *up, int64_t up_stride, int64_t rows, int64_t size,
    int32_t is_gelu, float *out, int32_t threads
) {
#pragma omp parallel num_threads(threads) if (threads > 1 && rows > 3)
    activate(gate, gate_stride, up, up_stride, rows, size, is_gelu, out);
}

/* Rotate one head [size] by a row's cos and sin [width]. Value i rotates with value i + width / 2; values from index
   width on are copied. */
static void rotate_head(const float *from, const float *cos, const float *sin, int64_t size, int64_t width, float *to) {
    int64_t half = width / 2;
    for (int64_t i = 0; i < half; i++) {
        float low = from[i], high = from[i + half];
        to[i] = low * cos[i] - high * sin[i];
        to[i + half] = high * cos[i + half] + low * sin[i + half];
    }
    for (int64_t i = width; i < size; i++) to[i] = from[i];
}

/* Rotate heads [heads, rows, size], with these strides of heads and rows, by cos and sin [rows, width]. Write the
   result to out [rows, heads, size]. */
void rotate(
    const float *states, int64_t head_stride, int64_t row_stride, const float *cos, const float *sin, int64_t heads,
    int64_t rows, int64_t size, int64_t width, float *out
) {
    for (int64_t r = 0; r < rows; r++, cos += width, sin += width)
        for (int64_t h = 0; h < heads; h++)
            rotate_head(states + h * head_stride + r * row_stride, cos, sin, size, width, out + (r * heads + h) * size);
}
