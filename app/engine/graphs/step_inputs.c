/* The inputs of a step as `packed_inputs` lays them out (step_inputs.py), number by number. `native_step_inputs.py`
   passes the constants when it compiles this file. */

#include <stdint.h>
#include <string.h>

#define WIDTH (SLOTS + NEWEST)

/* A row's newest keys are its parent's without the oldest, and its own; those of parent -1 are the prefix's. */
static void fill_path(int32_t *table, int64_t prefix, int64_t row, int64_t parent, int64_t position) {
    int32_t *path = table + row * WIDTH, *slots = path + SLOTS;
    path[POSITION] = (int32_t)position;
    path[BORDER] = (int32_t)(position + 1 > NEWEST ? position + 1 - NEWEST : 0);
    if (parent >= 0) memcpy(slots, table + parent * WIDTH + SLOTS + 1, (NEWEST - 1) * sizeof *slots);
    else
        for (int i = 0; i < NEWEST - 1; i++) {
            int64_t slot = prefix + 1 - NEWEST + i;
            slots[i] = (int32_t)(slot < 0 ? -1 : slot);
        }
    slots[NEWEST - 1] = (int32_t)(prefix + row);
}

/* `block` [4, rows]: tokens, positions, wanted rows, parents. Returns 0 where a row does not stand right behind its
   parent, or NEWEST positions behind the prefix: then `buffer` is not filled. */
int32_t fill(int64_t prefix, int64_t rows, const int64_t *block, int64_t *buffer) {
    const int64_t *positions = block + rows, *wanted = block + 2 * rows, *parents = block + 3 * rows;
    int32_t *table = (int32_t *)(buffer + 4 * rows);
    for (int64_t row = 0; row < rows; row++) {
        int64_t parent = parents[row], behind = parent < 0 ? prefix - 1 : positions[parent];
        if (positions[row] != behind + 1 || positions[row] >= prefix + NEWEST) return 0;
        fill_path(table, prefix, row, parent, positions[row]);
        buffer[2 * rows + row] = prefix + row;
    }
    memcpy(buffer, block, 2 * (size_t)rows * sizeof *buffer);
    memcpy(buffer + 3 * rows, wanted, (size_t)rows * sizeof *buffer);
    return 1;
}
