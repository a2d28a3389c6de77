-- The index of words has stems, and names with their signs: C++. The app writes the words as they are indexed
-- (app/documents/search/terms.py), so FTS5 has only to separate them at spaces. Passages keep their rows and vectors;
-- each document waits until its passages are indexed again.
ALTER TABLE document ADD COLUMN language TEXT NOT NULL DEFAULT '';     -- ISO 639, of its text; '' before it is indexed
DROP TABLE passage_words;
CREATE VIRTUAL TABLE passage_words USING fts5 (text, tokenize = "ascii tokenchars '+#.'");
UPDATE document SET state = replace(state, 'ready', 'waiting') WHERE state IN ('ready', 'removed-ready');
