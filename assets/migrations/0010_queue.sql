-- Messages that were typed while a reply was written, in the order in which they will be sent.
CREATE TABLE queued (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat INTEGER NOT NULL REFERENCES chat (id) ON DELETE CASCADE,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX queued_chat ON queued (chat);
