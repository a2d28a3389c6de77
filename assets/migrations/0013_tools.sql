-- The names of the tool servers that a chat may use, as a JSON list; '' for none.
ALTER TABLE chat ADD COLUMN tools TEXT NOT NULL DEFAULT '';
-- The calls of tools in a reply, with their results, as a JSON list; NULL if there are none.
ALTER TABLE message ADD COLUMN calls TEXT;
