/* Experts of a mixture: each row is multiplied by the matrices of its own experts, which are stacked in one weight. */

/* Multiply quantised row i in `bytes` by matrix `sorted[i]` of a stack, and write out [count, outs]; `outs` are whole
   tiles. */
static void multiply_chosen(
    const Packed *stack, const int64_t *sorted, int64_t count, int64_t outs, float *bytes, float *out
) {
    for (int64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && sorted[end] == sorted[begin]; end++) {}
        int64_t first = sorted[begin] * outs / OUTS;
        Product product = {stack, bytes_at(bytes, count, stack->size), out, first, first + outs / OUTS};
        multiply_rows(&product, begin, end);
    }
}

/* Multiply rows of x by matrices of a stack: row i of out [count, outs] is the product of row `rows[i]` of x with
   matrix `sorted[i]`. `bytes` has `rows_room` floats. */
void packed_experts(
    const Packed *stack, const int64_t *sorted, const int64_t *rows, int64_t count, int64_t outs, const float *x,
    float *bytes, float *out, int32_t threads
) {
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < count; i++) quantise_for(stack, x + rows[i] * stack->size, i, count, bytes);
        multiply_chosen(stack, sorted, count, outs, bytes, out);
    }
}

/* Write the chosen experts in ascending order to `sorted`, and the index of each choice in `sorted` to `index`. */
static void sort_choices(const int64_t *chosen, int64_t count, int64_t experts, int64_t *sorted, int64_t *index) {
    for (int64_t expert = 0, done = 0; expert < experts; expert++)
        for (int64_t i = 0; i < count; i++)
            if (chosen[i] == expert) index[i] = done, sorted[done++] = expert;
}

/* Add the results of each row's experts, in the order of the experts' numbers, times `shares`. */
static void add_results(
    const float *results, const float *shares, const int64_t *index, int64_t rows, int64_t each, int64_t size,
    float *out
) {
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        float *to = out + r * size;
        memset(to, 0, size * sizeof *to);
        for (int64_t done = 0, last = -1; done < each; done++) {
            int64_t next = -1;
            for (int64_t i = r * each; i < (r + 1) * each; i++)
                if (index[i] > last && (next < 0 || index[i] < index[next])) next = i;
            last = index[next];
            const float share = shares[next], *from = results + last * size;
            for (int64_t j = 0; j < size; j++) to[j] += share * from[j];
        }
    }
}

/* Compute experts, which are gated MLPs: down(activation(gate(x)) * up(x)). For each row of x [rows, size], add the
   results of the experts `chosen` [rows, each], times `shares`. For each expert the stack `up` has gate's rows, then
   up's; together these are `wide` rows. `room` has 1.5 * wide + size floats for each choice, and after these `rows_room`
   floats. `sorted` has two numbers for each choice. */
void gated_experts(
    const Packed *up, const Packed *down, int64_t experts, const int64_t *chosen, const float *shares, int64_t rows,
    int64_t each, int32_t is_gelu, const float *x, int64_t *sorted, float *room, float *out, int32_t threads
) {
    int64_t count = rows * each, wide = up->outs / experts, size = up->size, *index = sorted + count;
    float *both = room, *active = both + count * wide, *results = active + count * (wide / 2);
    float *bytes = results + count * size;
    sort_choices(chosen, count, experts, sorted, index);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
#pragma omp for schedule(static)
        for (int64_t i = 0; i < count; i++) quantise_for(up, x + i / each * size, index[i], count, bytes);
        multiply_chosen(up, sorted, count, wide, bytes, both);
#pragma omp barrier
        activate(both, wide, both + wide / 2, wide, count, wide / 2, is_gelu, active);
        quantise_rows(down, active, count, bytes);
        multiply_chosen(down, sorted, count, size, bytes, results);
#pragma omp barrier
        add_results(results, shares, index, rows, each, size, out);
    }
}
