-- A lane of a race that a server ran has the server's name. Its speed may be in pieces of text instead of tokens.
ALTER TABLE race_lanes ADD COLUMN server TEXT NOT NULL DEFAULT '';
ALTER TABLE race_lanes ADD COLUMN counts_pieces INTEGER NOT NULL DEFAULT 0;
