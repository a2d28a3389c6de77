/* The table of paths of a step, which attention/paths.py describes. */

/* Fill `table` [rows, 2 + newest] for rows whose positions follow their parents' positions. Return 1, or 0 with an
   unfinished table if a row's position does not follow, or if a row outside the block's leading chain is at position
   prefix + newest or later. */
int32_t row_paths(int64_t prefix, int64_t rows, int64_t newest, const int64_t *block, int32_t *table) {
    const int64_t *positions = block, *parents = block + rows, width = 2 + newest;
    int64_t chain = 0; /* leading rows that form a chain */
    for (int64_t row = 0; row < rows; row++) {
        int64_t position = positions[row], parent = parents[row];
        int64_t before = parent < 0 ? prefix - 1 : positions[parent];
        if (chain == row && parent == row - 1) chain++;
        if (position != before + 1 || (position >= prefix + newest && chain <= row)) return 0;
        int32_t *path = table + row * width, *slots = path + 2;
        path[0] = (int32_t)position;
        path[1] = (int32_t)(position + 1 > newest ? position + 1 - newest : 0);
        if (parent >= 0) memcpy(slots, table + parent * width + 3, (size_t)(newest - 1) * sizeof *slots);
        else
            for (int64_t slot = prefix + 1 - newest; slot < prefix; slot++)
                slots[slot - (prefix + 1 - newest)] = (int32_t)(slot < 0 ? -1 : slot);
        slots[newest - 1] = (int32_t)(prefix + row);
    }
    return 1;
}
