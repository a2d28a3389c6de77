/* ContextTable (context_table.py). Contexts are stored newest token first, except those of file_successors. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROW (1 + SUCCESSORS + FOLLOWERS)

typedef struct {
    int32_t *rows; /* [vocabulary + 2 ** bits, ROW] */
    int64_t vocabulary, shift;
    const int32_t *anywhere; /* [SUCCESSORS] */
} Table;

typedef struct {
    const int32_t *successors, *followers;
    int num_successors, successor_length, num_followers, follower_length;
} Entries;

/* The hash of a context extended by the token before it. */
static uint64_t longer(uint64_t hash, int64_t token) {
    return ((hash ^ hash >> 29) + (uint64_t)token + 1) * 0x9E3779B97F4A7C15u;
}

static int32_t tag_of(uint64_t hash) { return (int32_t)(hash & 0x7FFFFFFF) | 1; }

static int filled(const int32_t *entries, int most) {
    int count = 0;
    while (count < most && entries[count]) count++;
    return count;
}

/* ContextTable.lookup */
static Entries look_up(const Table *table, const int32_t *context, int length) {
    const int32_t *rows[LONGEST];
    int32_t tags[LONGEST];
    uint64_t hash = 0;
    for (int i = 0; i < length; i++) {
        hash = longer(hash, context[i]);
        rows[i] = table->rows + ROW * (int64_t)(i ? table->vocabulary + (hash >> table->shift) : (uint64_t)context[0]);
        tags[i] = i ? tag_of(hash) : 0;
        __builtin_prefetch(rows[i]);
    }
    Entries found = {table->anywhere, NULL, 0, 0, 0, 0};
    for (int i = length - 1; i >= 0; i--) {
        if ((!i && (uint64_t)context[0] >= (uint64_t)table->vocabulary) || rows[i][0] != tags[i]) continue;
        const int32_t *successors = rows[i] + 1, *followers = successors + SUCCESSORS;
        if (!found.successor_length && *successors) found.successors = successors, found.successor_length = i + 1;
        if (!found.follower_length && *followers) found.followers = followers, found.follower_length = i + 1;
        if (found.successor_length && found.follower_length) break;
    }
    found.num_successors = filled(found.successors, SUCCESSORS);
    if (found.follower_length) found.num_followers = filled(found.followers, FOLLOWERS);
    return found;
}

/* entries.pack_successors of one row */
static void pack(const int64_t *ids, const float *logits, int count, int32_t *packed) {
    int32_t gaps[SUCCESSORS];
    for (int i = 0; i < count; i++) {
        float gap = (logits[0] - logits[i]) / (float)GAP_STEP;
        gaps[i] = (int32_t)(gap < MOST_GAP ? gap : MOST_GAP);
    }
    gaps[0] = count > 1 ? gaps[1] : MOST_GAP;
    for (int i = 0; i < SUCCESSORS; i++) packed[i] = i < count ? (int32_t)(ids[i] + 1) << 10 | gaps[i] : 0;
}

typedef struct {
    int32_t *row, tag;
    int64_t owner;
} Place;

/* Appends the rows of the contexts' last `length` tokens to `places`; returns how many places there are now. */
static int64_t add_places(
    const Table *table, const int64_t *contexts, int64_t count, int length, uint64_t *hashes, Place *places,
    int64_t found
) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t *context = contexts + LONGEST * (i + 1) - length;
        int is_known = 1; /* -1 stands for a place before the text */
        for (int j = 0; j < length; j++) is_known &= context[j] >= 0;
        if (!is_known) continue;
        hashes[i] = longer(length > 1 ? hashes[i] : 0, context[0]);
        uint64_t slot = length > 1 ? (uint64_t)table->vocabulary + (hashes[i] >> table->shift) : (uint64_t)context[0];
        places[found] = (Place){table->rows + ROW * slot, length > 1 ? tag_of(hashes[i]) : 0, i};
        __builtin_prefetch(places[found++].row, 1);
    }
    return found;
}

/* ContextTable.learn_successors of `count` contexts [count, LONGEST], whose likeliest tokens are [count, width]. */
static void file_successors(
    const Table *table, const int64_t *contexts, const int64_t *ids, const float *logits, int64_t count, int64_t width
) {
    Place *places = malloc((size_t)count * (LONGEST * sizeof(Place) + sizeof(uint64_t)));
    if (!places) return; /* guesses may be missing */
    uint64_t *hashes = (uint64_t *)(places + LONGEST * count);
    int64_t found = 0;
    int kept = width < SUCCESSORS ? (int)width : SUCCESSORS;
    for (int length = 1; length <= LONGEST; length++)
        found = add_places(table, contexts, count, length, hashes, places, found);
    for (int64_t i = 0; i < found; i++) {
        Place place = places[i];
        if (place.row[0] != place.tag) memset(place.row, 0, ROW * sizeof(int32_t));
        place.row[0] = place.tag;
        pack(ids + place.owner * width, logits + place.owner * width, kept, place.row + 1);
    }
    free(places);
}
