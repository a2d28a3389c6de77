-- What is typed and not sent yet. Chat 0 is the one that is not begun yet.
CREATE TABLE draft (
    chat INTEGER PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;
