-- The chat from which a chat was forked; 0 for none.
ALTER TABLE chat ADD COLUMN forked_from INTEGER NOT NULL DEFAULT 0;
-- What the model reads instead of this message and all before it; '' if it reads them.
ALTER TABLE message ADD COLUMN summary TEXT NOT NULL DEFAULT '';
