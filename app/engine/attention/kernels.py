"""Our fused attention: kernels that divide their sums by absolute position.

    position  0          256        512   ...   border       own position
              | span 0   | span 1   | ...  part |    newest keys    |
              `-------- prefix_kernel ----------'`- finish_kernel --'

A row's border divides its keys. Each key before the border is in the slot of its own position. The newest keys,
after the border, may be in any slots, because they may be drafts (`paths.py`).

`prefix_kernel` reads the keys before each row's border. It multiplies BLOCK_M rows (the query heads that share a
key head count as rows) by tiles of BLOCK_N keys. The sum of a span of SPAN positions starts from zero and adds
tile after tile; GROUP_SPANS spans are folded into a group, in order. A program sums SPANS spans: one, or a whole
group. Both numbers give the same sums, so the number is chosen to keep the device busy. If there are many spans,
`fold_kernel` folds those of each group, so that no program has to fold all of them one after the other.

`finish_kernel` finishes one row: it folds the groups in order, then the newest keys, whose slots it reads from the
table of paths, then the sink. Keys that the row does not see have weight 0 and change nothing, not even the
rounding. So a row's result depends, to the last bit, only on its position and the text before it.

Sums are kept as (peak, total, mixed): the largest score in units of log2, the weights' sum and the weighted
values, both relative to the peak. Multiplications and additions are fused only by tl.fma. The kernels are compiled
with enable_fp_fusion off, because otherwise the rounding would depend on what the compiler chooses to fuse.
"""

import triton
import triton.language as tl


def is_interpreted() -> bool:
    """Return whether TRITON_INTERPRET=1 was set when triton was imported, so that its interpreter runs the
    kernels."""
    return not isinstance(prefix_kernel, triton.JITFunction)


@triton.jit
def _nothing(ROWS: tl.constexpr, SIZE: tl.constexpr):
    """Return the sum over no keys."""
    peak = tl.full([ROWS], float("-inf"), tl.float32)
    return peak, tl.full([ROWS], 0.0, tl.float32), tl.full([ROWS, SIZE], 0.0, tl.float32)


@triton.jit
def _fold(peak, total, mixed, more_peak, more_total, more_mixed):
    """Add two sums. Adding the sum over no keys leaves the other sum bitwise identical."""
    new_peak = tl.maximum(peak, more_peak)
    base = tl.where(new_peak == float("-inf"), 0.0, new_peak)
    kept, added = tl.exp2(peak - base), tl.exp2(more_peak - base)
    total = tl.fma(total, kept, more_total * added)
    return new_peak, total, tl.fma(mixed, kept[:, None], more_mixed * added[:, None])


@triton.jit
def _scores(states, key, inner, HAS_SOFTCAP: tl.constexpr):
    """Multiply states [M, D] by keys [N, D] and apply the soft cap. Returns scores [M, N]; multiplied by `outer`,
    they are in units of log2."""
    scores = tl.dot(states, tl.trans(key), input_precision="ieee")
    if HAS_SOFTCAP:
        scaled = scores * inner
        small = tl.exp2(tl.abs(scaled) * -2.885390081777927)  # exp(-2 |x|)
        flat = (1.0 - small) / (1.0 + small)
        scores = tl.where(scaled < 0.0, -flat, flat)
    return scores


@triton.jit
def _with_tile(peak, total, mixed, scores, value, outer):
    """Add keys to a sum, by their scores [M, N] (-inf if a row does not see a key) and values [N, D]."""
    new_peak = tl.maximum(peak, tl.max(scores, 1) * outer)
    base = tl.where(new_peak == float("-inf"), 0.0, new_peak)
    weights = tl.exp2(tl.fma(scores, outer, -base[:, None]))
    kept = tl.exp2(peak - base)
    total = tl.fma(total, kept, tl.sum(weights, 1))
    mixed = tl.dot(weights.to(value.dtype), value, mixed * kept[:, None], input_precision="ieee")
    return new_peak, total, mixed


@triton.jit
def _of_tile(scores, value, outer, ROWS: tl.constexpr, SIZE: tl.constexpr):
    """Return the sum over these keys alone."""
    peak, total, mixed = _nothing(ROWS, SIZE)
    return _with_tile(peak, total, mixed, scores, value, outer)


@triton.jit
def _gathered(states, slots, mask, slot_stride, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Load one head's rows [N, BLOCK] from these slots; masked rows, and columns from SIZE on, are 0."""
    size = tl.arange(0, BLOCK)
    places = slots.to(tl.int64)[:, None] * slot_stride + size[None, :]
    return tl.load(states + places, mask=mask[:, None] & (size < SIZE)[None, :], other=0.0)


@triton.jit
def _store(states, places, given, mask, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Store the first SIZE values of rows [N, BLOCK] at these row indexes, except masked rows."""
    size = tl.arange(0, BLOCK)
    to = states + places[:, None] * SIZE + size[None, :]
    tl.store(to, given, mask=mask[:, None] & (size < SIZE)[None, :])


@triton.jit
def _sight(path, mask, WINDOW: tl.constexpr):
    """Load the first position that each row sees, and each row's border; both are 0 for masked rows."""
    oldest = tl.load(path, mask=mask, other=0)
    if WINDOW:
        oldest = tl.maximum(oldest - (WINDOW - 1), 0)
    else:
        oldest = oldest * 0
    return oldest, tl.load(path + 1, mask=mask, other=0)


@triton.jit(do_not_specialize=["rows", "path_row"])
def prefix_kernel(
    query, keys, values, paths, peaks, totals, mixes,
    rows, query_head, query_row, key_head, key_slot, value_head, value_slot, path_row, inner, outer,
    GROUP: tl.constexpr, SIZE: tl.constexpr, VALUE_SIZE: tl.constexpr,
    WINDOW: tl.constexpr, HAS_SOFTCAP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
    SPAN: tl.constexpr, SPANS: tl.constexpr,
):  # fmt: skip
    """Write the sums over the keys before each row's border: peaks and totals [parts, KV, rows], mixes
    [.., VALUE_SIZE].

    `rows` is T * GROUP, because each of a row's GROUP heads counts as a row. A program whose part has no key
    for its rows writes nothing."""
    shared, part = tl.program_id(1), tl.program_id(2)
    place = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    is_row, row = place < rows, place // GROUP
    oldest, border = _sight(paths + row * path_row, is_row, WINDOW)
    begin, end = part * (SPAN * SPANS), tl.minimum(tl.max(border), (part + 1) * (SPAN * SPANS))
    begin = tl.maximum(begin, tl.min(tl.where(is_row, oldest, 1 << 30)) // BLOCK_N * BLOCK_N)
    if begin >= end:
        return
    # Tiles between these two positions are seen completely by every row, so they need no mask.
    all_from, all_to = tl.max(oldest), tl.min(tl.where(is_row, border, 1 << 30))
    head = shared * GROUP + place % GROUP
    states = _gathered(query, head.to(tl.int64) * query_head + row * query_row, is_row, 1, SIZE, BLOCK_D)
    keys += shared.to(tl.int64) * key_head
    values += shared.to(tl.int64) * value_head
    peak, total, mixed = _nothing(BLOCK_M, BLOCK_V)
    group_peak, group_total, group_mixed = _nothing(BLOCK_M, BLOCK_V)
    for start in tl.range(begin, end, BLOCK_N):
        if SPANS > 1:
            if start % SPAN == 0:
                group_peak, group_total, group_mixed = _fold(
                    group_peak, group_total, group_mixed, peak, total, mixed
                )
                peak, total, mixed = _nothing(BLOCK_M, BLOCK_V)
        at = start + tl.arange(0, BLOCK_N)
        # Slots after the last border may never have been written, so they are not read.
        key = _gathered(keys, at, at < end, key_slot, SIZE, BLOCK_D)
        value = _gathered(values, at, at < end, value_slot, VALUE_SIZE, BLOCK_V)
        scores = _scores(states, key, inner, HAS_SOFTCAP)
        if (start < all_from) | (start + BLOCK_N > all_to):
            is_seen = (at[None, :] < border[:, None]) & (at[None, :] >= oldest[:, None])
            scores = tl.where(is_seen, scores, float("-inf"))
        peak, total, mixed = _with_tile(peak, total, mixed, scores, value, outer)
    if SPANS > 1:
        peak, total, mixed = _fold(group_peak, group_total, group_mixed, peak, total, mixed)
    to = (part * tl.num_programs(1) + shared).to(tl.int64) * rows + place
    tl.store(peaks + to, peak, mask=is_row)
    tl.store(totals + to, total, mask=is_row)
    _store(mixes, to, mixed, is_row, VALUE_SIZE, BLOCK_V)


@triton.jit
def _folded_parts(
    peaks, totals, mixes, first, last, part_rows, place, is_head,
    VALUE_SIZE: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_V: tl.constexpr,
    SPANS: tl.constexpr, GROUP_SPANS: tl.constexpr,
):  # fmt: skip
    """Fold one row's parts from `first` up to `last` into a sum [BLOCK_G]; a part is a span, or a whole group."""
    peak, total, mixed = _nothing(BLOCK_G, BLOCK_V)
    group_peak, group_total, group_mixed = _nothing(BLOCK_G, BLOCK_V)
    for part in tl.range(first, last, num_stages=3):
        at = place.to(tl.int64) + part * part_rows
        part_peak = tl.load(peaks + at, mask=is_head, other=float("-inf"))
        part_total = tl.load(totals + at, mask=is_head, other=0.0)
        part_mixed = _gathered(mixes, at, is_head, VALUE_SIZE, VALUE_SIZE, BLOCK_V)
        group_peak, group_total, group_mixed = _fold(
            group_peak, group_total, group_mixed, part_peak, part_total, part_mixed
        )
        if (part + 1) * SPANS % GROUP_SPANS == 0:
            peak, total, mixed = _fold(peak, total, mixed, group_peak, group_total, group_mixed)
            group_peak, group_total, group_mixed = _nothing(BLOCK_G, BLOCK_V)
    return _fold(peak, total, mixed, group_peak, group_total, group_mixed)


@triton.jit
def _parts_seen(oldest, border, SIZE: tl.constexpr):
    """Return the first part of SIZE positions that has keys from `oldest` up to the border, and the part after the
    last. They are equal if the window excludes all keys before the border."""
    first, last = oldest // SIZE, tl.cdiv(tl.maximum(border, oldest), SIZE)
    return first, tl.where(oldest < border, last, first)


@triton.jit(do_not_specialize=["rows", "path_row"])
def fold_kernel(
    paths, peaks, totals, mixes, rows, path_row,
    GROUP: tl.constexpr, VALUE_SIZE: tl.constexpr, WINDOW: tl.constexpr, BLOCK_G: tl.constexpr,
    BLOCK_V: tl.constexpr, SPAN: tl.constexpr, GROUP_SPANS: tl.constexpr,
):  # fmt: skip
    """Fold the spans of one group for one row and key head; write the sum where the group's first span was."""
    row, shared, group = tl.program_id(0), tl.program_id(1), tl.program_id(2) * GROUP_SPANS
    member = tl.arange(0, BLOCK_G)
    is_head = member < GROUP
    oldest, border = _sight(paths + row * path_row, True, WINDOW)
    first, last = _parts_seen(oldest, border, SPAN)
    first, last = tl.maximum(first, group), tl.minimum(last, group + GROUP_SPANS)
    if first >= last:
        return
    place, part_rows = shared * rows + row * GROUP + member, tl.num_programs(1).to(tl.int64) * rows
    peak, total, mixed = _folded_parts(
        peaks, totals, mixes, first, last, part_rows, place, is_head,
        VALUE_SIZE, BLOCK_G, BLOCK_V, 1, GROUP_SPANS,
    )  # fmt: skip
    tl.debug_barrier()  # all threads have read the first span before any of them overwrites it
    at = place.to(tl.int64) + group * part_rows
    tl.store(peaks + at, peak, mask=is_head)
    tl.store(totals + at, total, mask=is_head)
    _store(mixes, at, mixed, is_head, VALUE_SIZE, BLOCK_V)


@triton.jit(do_not_specialize=["rows", "path_row", "width"])
def finish_kernel(
    query, keys, values, paths, peaks, totals, mixes, sinks, out,
    rows, query_head, query_row, key_head, key_slot, value_head, value_slot, path_row, width, inner, outer,
    GROUP: tl.constexpr, SIZE: tl.constexpr, VALUE_SIZE: tl.constexpr,
    WINDOW: tl.constexpr, HAS_SOFTCAP: tl.constexpr, HAS_SINKS: tl.constexpr,
    BLOCK_G: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_V: tl.constexpr,
    NEWEST: tl.constexpr, SPAN: tl.constexpr, SPANS: tl.constexpr, GROUP_SPANS: tl.constexpr,
    PLACES: tl.constexpr,
):  # fmt: skip
    """Finish one row and key head: add prefix sums, newest keys and sinks; write to out [T, H, VALUE_SIZE].

    `width` is the number of slots that the table of paths has for each row. A part has SPANS spans; the sum of
    part i is at index i * PLACES of `peaks`, `totals` and `mixes`."""
    row, shared = tl.program_id(0), tl.program_id(1)
    member = tl.arange(0, BLOCK_G)
    is_head, head = member < GROUP, shared * GROUP + member
    path = paths + row * path_row
    position = tl.load(path)
    oldest, border = _sight(path, True, WINDOW)
    first, last = _parts_seen(oldest, border, SPAN * SPANS)
    place, part_rows = shared * rows + row * GROUP + member, tl.num_programs(1).to(tl.int64) * rows * PLACES
    peak, total, mixed = _folded_parts(
        peaks, totals, mixes, first, last, part_rows, place, is_head,
        VALUE_SIZE, BLOCK_G, BLOCK_V, SPANS, GROUP_SPANS,
    )  # fmt: skip
    states = _gathered(query, head.to(tl.int64) * query_head + row * query_row, is_head, 1, SIZE, BLOCK_D)
    keys += shared.to(tl.int64) * key_head
    values += shared.to(tl.int64) * value_head
    chunks = tl.minimum(tl.cdiv(position + 1 - border, NEWEST), width // NEWEST)
    for chunk in tl.range(0, chunks):
        column = width - (chunks - chunk) * NEWEST + tl.arange(0, NEWEST)
        slots = tl.load(path + 2 + column)
        is_seen = (slots >= 0) & (position + 1 - width + column >= oldest)
        key = _gathered(keys, slots, is_seen, key_slot, SIZE, BLOCK_D)
        value = _gathered(values, slots, is_seen, value_slot, VALUE_SIZE, BLOCK_V)
        scores = tl.where(is_seen[None, :], _scores(states, key, inner, HAS_SOFTCAP), float("-inf"))
        new_peak, new_total, new_mixed = _of_tile(scores, value, outer, BLOCK_G, BLOCK_V)
        peak, total, mixed = _fold(peak, total, mixed, new_peak, new_total, new_mixed)
    if HAS_SINKS:
        sink = tl.load(sinks + head, mask=is_head, other=0.0).to(tl.float32) * 1.4426950408889634
        peak, total, mixed = _fold(peak, total, mixed, sink, tl.full([BLOCK_G], 1.0, tl.float32), mixed * 0.0)
    # A tile has at least 16 rows, even if there are fewer heads, and the total of an unused row may be 0.
    mixed = mixed / tl.where(total == 0.0, 1.0, total)[:, None]
    _store(out, row * tl.num_programs(1) * GROUP + head, mixed, is_head, VALUE_SIZE, BLOCK_V)
