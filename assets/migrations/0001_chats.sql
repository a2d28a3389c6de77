-- Chats as trees of messages, the words to find them by, and presets. docs/chats.md draws this.

-- AUTOINCREMENT: a page that fell behind must never meet another chat, or another message, under an id it knows.
CREATE TABLE chat (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL DEFAULT '',
    is_named INTEGER NOT NULL DEFAULT 0,   -- the person gave the title
    folder TEXT NOT NULL DEFAULT '',
    is_pinned INTEGER NOT NULL DEFAULT 0,
    system TEXT NOT NULL DEFAULT '',
    sampling TEXT,                         -- JSON; NULL: as the settings say
    version INTEGER NOT NULL DEFAULT 0,    -- counts the changes of the tree and of what is shown of it
    shown INTEGER NOT NULL DEFAULT 0,      -- the message where the shown path ends; 0: there is none yet
    created REAL NOT NULL,
    updated REAL NOT NULL,
    deleted REAL                           -- NULL: it is there; else when it was deleted, until it is forgotten
) STRICT;

CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat INTEGER NOT NULL REFERENCES chat (id) ON DELETE CASCADE,
    parent INTEGER REFERENCES message (id) ON DELETE CASCADE,  -- NULL: a first message
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    marks TEXT NOT NULL DEFAULT '',        -- JSON, '' for none
    provenance TEXT,                       -- JSON
    thought REAL NOT NULL DEFAULT 0,
    created REAL NOT NULL
) STRICT;
-- With the id that every index has: a chat's whole tree without reading a message.
CREATE INDEX message_tree ON message (chat, parent);
-- With the chat of a message that was found, without reading the message.
CREATE INDEX message_chat ON message (id, chat);
-- For the parent's own foreign key, when a chat goes.
CREATE INDEX message_parent ON message (parent);
CREATE INDEX message_writing ON message (state) WHERE state = 'writing';

-- Words as app/chats/words.py spaces them: a message that is being written has none here yet.
CREATE VIRTUAL TABLE message_words USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2', prefix = '1 2 3');
CREATE TRIGGER message_words_leave AFTER DELETE ON message BEGIN
    DELETE FROM message_words WHERE rowid = old.id;
END;
CREATE VIRTUAL TABLE chat_words USING fts5 (title, tokenize = 'unicode61 remove_diacritics 2', prefix = '1 2 3');
CREATE TRIGGER chat_words_leave AFTER DELETE ON chat BEGIN
    DELETE FROM chat_words WHERE rowid = old.id;
END;

CREATE TABLE preset (
    name TEXT PRIMARY KEY,
    system TEXT NOT NULL DEFAULT '',
    sampling TEXT
) STRICT;
