-- Documents in collections, cut into passages; the words and the vectors to find those by. docs/documents.md draws this.

CREATE TABLE collection (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- a chat must never meet another collection under an id it knows
    name TEXT NOT NULL,
    is_leaving INTEGER NOT NULL DEFAULT 0, -- deleted, its documents are still going
    created REAL NOT NULL
) STRICT;

CREATE TABLE document (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    collection INTEGER NOT NULL REFERENCES collection (id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    source TEXT NOT NULL,
    origin TEXT NOT NULL DEFAULT '',       -- the file's whole path: the same file again is the same document
    state TEXT NOT NULL,                   -- a DocumentState, or 'leaving': removed, its rows are being deleted
    note TEXT NOT NULL DEFAULT '',
    digest BLOB,                           -- of the text: the same again is a duplicate; NULL: not read yet
    characters INTEGER NOT NULL DEFAULT 0,
    passages INTEGER NOT NULL DEFAULT 0,   -- once it is ready
    done INTEGER NOT NULL DEFAULT 0,
    total INTEGER NOT NULL DEFAULT 0,
    added REAL NOT NULL
) STRICT;
CREATE INDEX document_collection ON document (collection, digest);

-- Apart from its document, which lists read, and in parts of the same number of characters (the last may be
-- shorter): a passage of a long text is read without the rest.
CREATE TABLE document_text (
    document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    part INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (document, part)
) STRICT;

CREATE TABLE passage (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    document INTEGER NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    start INTEGER NOT NULL,                -- characters (Unicode code points) into the text
    end INTEGER NOT NULL,
    heading TEXT NOT NULL DEFAULT '',
    digest BLOB NOT NULL                   -- of heading and text: what has not changed keeps its row and vector
) STRICT;
CREATE INDEX passage_document ON passage (document, start);

-- Words as app/documents/search/words.py spaces them.
CREATE VIRTUAL TABLE passage_words USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER passage_words_leave AFTER DELETE ON passage BEGIN
    DELETE FROM passage_words WHERE rowid = old.id;
END;

-- float32, little-endian, of length one; `model` says whose, all of one. Those with a larger id came later.
CREATE TABLE passage_vector (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    passage INTEGER NOT NULL UNIQUE REFERENCES passage (id) ON DELETE CASCADE,
    document INTEGER NOT NULL,             -- the passage's
    model TEXT NOT NULL,
    vector BLOB NOT NULL
) STRICT;
CREATE INDEX passage_vector_document ON passage_vector (document);

-- Which collections a chat asks, and what an answer's numbers stand for.
ALTER TABLE chat ADD COLUMN collections TEXT NOT NULL DEFAULT '';      -- JSON, a list of ids; '' for none
ALTER TABLE message ADD COLUMN sources TEXT;                           -- JSON; NULL: no documents were asked
