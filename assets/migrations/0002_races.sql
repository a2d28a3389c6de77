-- Races: what each lane brought on which kind of text, by the model as it ran here. Replies are not kept.
CREATE TABLE races (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    model TEXT NOT NULL,
    dtype TEXT NOT NULL,
    device TEXT NOT NULL,
    quantisation TEXT NOT NULL,
    kind TEXT NOT NULL,
    prompt TEXT NOT NULL
) STRICT;
CREATE INDEX races_by_model ON races (model, dtype, device, quantisation, at);
CREATE TABLE race_lanes (
    race INTEGER NOT NULL REFERENCES races (id) ON DELETE CASCADE,
    lane INTEGER NOT NULL,
    name TEXT NOT NULL,
    speed_up REAL NOT NULL,
    tokens_per_second REAL NOT NULL,
    tokens_per_step REAL NOT NULL,
    is_identical INTEGER NOT NULL,
    PRIMARY KEY (race, lane)
) STRICT, WITHOUT ROWID;
