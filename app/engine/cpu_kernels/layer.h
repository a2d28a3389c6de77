/* A decoder layer.

   It calls the kernels one after the other, without Python in between: norm, queries, keys and values, rotary
   embedding, attention, sum and norm, gated MLP, sum. */

typedef struct {
    const float *weight; /* NULL if there is no such norm */
    float eps;
    int32_t adds_one;
} Norm;

/* `cpu_layers.py` has the same structures. */
typedef struct {
    Linear query, keys, values, output, gate, up, down;
    Norm input, post, query_norm, key_norm; /* the last two are applied to each head */
    int64_t heads, shared, size, value_size;
    float scale;
    int32_t is_gelu;
} Layer;

typedef struct {
    float *normed, *query, *rotated, *keys, *values, *sums, *partial, *attended, *added, *total, *gate, *up, *active;
    float *bytes;
} Room;

static float *take(float *room, int64_t *taken, int64_t count) {
    float *here = room + *taken;
    *taken += (count + 15) / 16 * 16;
    return here;
}

/* Lay out the temporary memory of a step of `rows` rows, one part after the other; return its length in floats. */
static int64_t lay_out(const Layer *l, int64_t rows, int64_t prefix, float *room, Room *to) {
    int64_t taken = 0, hidden = l->query.size, wide = l->down.size, spans = spans_of(prefix);
    int64_t most = wide > l->output.size ? wide : l->output.size;
    if (hidden > most) most = hidden;
    to->normed = take(room, &taken, rows * hidden), to->query = take(room, &taken, rows * l->query.outs);
    to->rotated = take(room, &taken, rows * l->query.outs), to->keys = take(room, &taken, rows * l->keys.outs);
    to->values = take(room, &taken, rows * l->values.outs), to->sums = take(room, &taken, 2 * spans * l->heads * rows);
    to->partial = take(room, &taken, spans * l->heads * rows * l->value_size);
    to->attended = take(room, &taken, rows * l->output.size), to->added = take(room, &taken, rows * hidden);
    to->total = take(room, &taken, rows * hidden), to->gate = take(room, &taken, rows * wide);
    to->up = take(room, &taken, rows * wide), to->active = take(room, &taken, rows * wide);
    to->bytes = take(room, &taken, rows_room(rows, most));
    return taken;
}

int64_t decoder_layer_room(const Layer *layer, int64_t rows, int64_t prefix) {
    Room room;
    return lay_out(layer, rows, prefix, NULL, &room);
}

static void quantise_rows(const Linear *l, const float *x, int64_t rows, float *room) {
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) quantise_for(l, x + r * l->size, r, rows, room);
}

static void norm(
    const Norm *n, const float *x, const float *others, int64_t rows, int64_t size, float *total, float *out
) {
    rms_norm(x, others, n->weight, rows, size, n->eps, n->adds_one, total, out);
}

/* Rotate a row's queries; write its rotated keys and its values to the cache. */
static void place_row(
    const Layer *l, const Room *room, const float *cos, const float *sin, int64_t width, int64_t row, float *keys,
    int64_t key_head, float *values, int64_t value_head, int64_t slot
) {
    float *query = room->query + row * l->query.outs, *key = room->keys + row * l->keys.outs;
    const float *value = room->values + row * l->values.outs;
    if (l->query_norm.weight) norm(&l->query_norm, query, NULL, l->heads, l->size, query, query);
    if (l->key_norm.weight) norm(&l->key_norm, key, NULL, l->shared, l->size, key, key);
    cos += row * width, sin += row * width;
    for (int64_t h = 0; h < l->heads; h++)
        rotate_head(query + h * l->size, cos, sin, l->size, width, room->rotated + row * l->query.outs + h * l->size);
    for (int64_t h = 0; h < l->shared; h++) {
        rotate_head(key + h * l->size, cos, sin, l->size, width, keys + h * key_head + slot * l->size);
        float *to = values + h * value_head + slot * l->value_size;
        memcpy(to, value + h * l->value_size, l->value_size * sizeof(float));
    }
}

/* Compute the layer's output from states [rows, hidden]. The cache has `prefix` rows, after which the block's keys and
   values are written; its heads have the given strides. `space` has `decoder_layer_room` floats. */
void decoder_layer(
    const Layer *l, const float *states, int64_t rows, const float *cos, const float *sin, int64_t width, float *keys,
    int64_t key_head, float *values, int64_t value_head, int64_t prefix, const uint8_t *visible, float *space,
    float *out, int32_t threads
) {
    Room room;
    int64_t hidden = l->query.size, wide = l->down.size;
    lay_out(l, rows, prefix, space, &room);
    Task task = {room.rotated, keys, values, l->size, l->query.outs, key_head, value_head, prefix, rows, l->heads,
                 l->shared, l->size, l->value_size, l->scale, visible, (Sums *)room.sums, room.partial, room.attended};
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) {
            float *normed = room.normed + r * hidden;
            norm(&l->input, states + r * hidden, NULL, 1, hidden, normed, normed);
            quantise_for(&l->query, normed, r, rows, room.bytes);
        }
        linear(&l->query, room.bytes, rows, room.query);
        linear(&l->keys, room.bytes, rows, room.keys);
        linear(&l->values, room.bytes, rows, room.values);
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++)
            place_row(l, &room, cos, sin, width, r, keys, key_head, values, value_head, prefix + r);
        attend_rows(&task);
        quantise_rows(&l->output, room.attended, rows, room.bytes);
        linear(&l->output, room.bytes, rows, room.added);
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++) {
            float *total = room.total + r * hidden, *normed = room.normed + r * hidden;
            norm(&l->post, states + r * hidden, room.added + r * hidden, 1, hidden, total, normed);
            quantise_for(&l->gate, normed, r, rows, room.bytes);
        }
        linear(&l->gate, room.bytes, rows, room.gate);
        linear(&l->up, room.bytes, rows, room.up);
#pragma omp barrier
        activate(room.gate, wide, room.up, wide, rows, wide, l->is_gelu, room.active);
        quantise_rows(&l->down, room.active, rows, room.bytes);
        linear(&l->down, room.bytes, rows, room.added);
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows * hidden; i++) out[i] = room.total[i] + room.added[i];
    }
}
