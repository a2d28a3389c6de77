/* The table of paths of a step (attention/paths.py describes it), in C, because the host has little time for it. */

/* Fill `table` [rows, 2 + newest] for rows whose positions follow their parents'. Return 0 and leave the table
   unfinished if a row's position does not follow, or is `newest` or more positions after the prefix, unless the row and
   all rows before it are a chain. */
int32_t row_paths(int64_t prefix, int64_t rows, int64_t newest, const int64_t *block, int32_t *table) {
    const int64_t *positions = block, *parents = block + rows, width = 2 + newest;
    int64_t chain = 0; /* rows from the first on that follow each other */
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
