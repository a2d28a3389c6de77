/* Decoder layers, which call the kernels one after the other, without Python in between: norm, queries, keys and
   values, rotary embedding, attention, sum and norm, gated MLP, sum. In a mixture of experts the MLP is left out. */

typedef struct {
    const float *weight; /* NULL if a layer has no norm of queries or of keys */
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

/* A layer's keys and values in the cache; `key_head` and `value_head` are the strides of their heads, in floats. */
typedef struct {
    float *keys, *values;
    int64_t key_head, value_head;
} Slots;

typedef struct {
    float *normed, *query, *rotated, *keys, *values, *sums, *partial, *attended, *added, *total, *gate, *up, *active;
    float *bytes;
} Room;

static float *take(float *room, int64_t *taken, int64_t count) {
    float *here = room + *taken;
    *taken += (count + 15) / 16 * 16;
    return here;
}

/* Divide a layer's temporary memory for `rows` rows into parts; return its length in floats. */
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

/* Return how many floats `decoder_layers` needs as temporary memory. */
int64_t decoder_layers_room(const Layer *layers, int64_t count, int64_t rows, int64_t prefix) {
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        Room room;
        int64_t needed = lay_out(layers + i, rows, prefix, NULL, &room);
        if (needed > most) most = needed;
    }
    return most;
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

/* A step: the number of its rows, their rotary tables [rows, width], and the number of committed rows (`prefix`). */
typedef struct {
    int64_t rows, width, prefix;
    const float *cos, *sin;
    const uint8_t *visible; /* [rows, rows] */
} Step;

/* Normalise and rotate a row's queries and keys; write its keys and values to the cache. */
static void place_row(const Layer *l, const Room *room, const Step *s, int64_t row, const Slots *to) {
    float *query = room->query + row * l->query.outs, *key = room->keys + row * l->keys.outs;
    const float *value = room->values + row * l->values.outs;
    if (l->query_norm.weight) norm(&l->query_norm, query, NULL, l->heads, l->size, query, query);
    if (l->key_norm.weight) norm(&l->key_norm, key, NULL, l->shared, l->size, key, key);
    const float *cos = s->cos + row * s->width, *sin = s->sin + row * s->width;
    int64_t slot = s->prefix + row;
    for (int64_t h = 0; h < l->heads; h++)
        rotate_head(query + h * l->size, cos, sin, l->size, s->width, room->rotated + row * l->query.outs + h * l->size);
    for (int64_t h = 0; h < l->shared; h++) {
        rotate_head(key + h * l->size, cos, sin, l->size, s->width, to->keys + h * to->key_head + slot * l->size);
        float *place = to->values + h * to->value_head + slot * l->value_size;
        memcpy(place, value + h * l->value_size, l->value_size * sizeof(float));
    }
}

/* Compute a layer's attention. Write attention plus states to `total` of the room, and the norm of this sum to
   `normed`. */
static void attention_part(const Layer *l, const Slots *slots, const Step *s, const float *states, const Room *room) {
    int64_t rows = s->rows, hidden = l->query.size;
    Task task = {room->rotated, slots->keys, slots->values, l->size, l->query.outs, slots->key_head,
                 slots->value_head, s->prefix, rows, l->heads, l->shared, l->size, l->value_size, l->scale,
                 s->visible, (Sums *)room->sums, room->partial, room->attended};
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float *normed = room->normed + r * hidden;
        norm(&l->input, states + r * hidden, NULL, 1, hidden, normed, normed);
        quantise_for(&l->query, normed, r, rows, room->bytes);
    }
    linear(&l->query, room->bytes, rows, room->query);
    linear(&l->keys, room->bytes, rows, room->keys);
    linear(&l->values, room->bytes, rows, room->values);
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) place_row(l, room, s, r, slots);
    attend_rows(&task);
    quantise_rows(&l->output, room->attended, rows, room->bytes);
    linear(&l->output, room->bytes, rows, room->added);
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float *total = room->total + r * hidden, *normed = room->normed + r * hidden;
        norm(&l->post, states + r * hidden, room->added + r * hidden, 1, hidden, total, normed);
    }
}

/* Compute a layer, and write its result to `states`. */
static void decoder_layer(const Layer *l, const Slots *slots, const Step *s, float *states, float *space) {
    Room room;
    int64_t rows = s->rows, hidden = l->query.size, wide = l->down.size;
    lay_out(l, rows, s->prefix, space, &room);
    attention_part(l, slots, s, states, &room);
    quantise_rows(&l->gate, room.normed, rows, room.bytes);
    linear(&l->gate, room.bytes, rows, room.gate);
    linear(&l->up, room.bytes, rows, room.up);
#pragma omp barrier
    activate(room.gate, wide, room.up, wide, rows, wide, l->is_gelu, room.active);
    quantise_rows(&l->down, room.active, rows, room.bytes);
    linear(&l->down, room.bytes, rows, room.added);
#pragma omp barrier
#pragma omp for schedule(static)
    for (int64_t i = 0; i < rows * hidden; i++) states[i] = room.total[i] + room.added[i];
}

/* Compute layers one after the other on states [rows, hidden], which the results replace. The rows' keys and values are
   written to the cache after its `prefix` rows. `space` has `decoder_layers_room` floats. */
void decoder_layers(
    const Layer *layers, const Slots *slots, int64_t count, int64_t rows, const float *cos, const float *sin,
    int64_t width, int64_t prefix, const uint8_t *visible, float *states, float *space, int32_t threads
) {
    Step step = {rows, width, prefix, cos, sin, visible};
#pragma omp parallel num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < count; i++) decoder_layer(layers + i, slots + i, &step, states, space);
}

/* Compute the attention of a layer whose MLP is a mixture of experts: replace states [rows, hidden] by attention plus
   states, and write the norm of this sum to `normed`. The other arguments are those of `decoder_layers`. */
void attention_layer(
    const Layer *layer, const Slots *slots, int64_t rows, const float *cos, const float *sin, int64_t width,
    int64_t prefix, const uint8_t *visible, float *states, float *normed, float *space, int32_t threads
) {
    Step step = {rows, width, prefix, cos, sin, visible};
    Room room;
    lay_out(layer, rows, prefix, space, &room);
    room.normed = normed;
#pragma omp parallel num_threads(threads) if (threads > 1)
    attention_part(layer, slots, &step, states, &room);
    memcpy(states, room.total, rows * layer->query.size * sizeof *states);
}
