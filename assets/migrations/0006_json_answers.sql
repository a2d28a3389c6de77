-- Whether a chat's answers are JSON, and of which JSON Schema.
ALTER TABLE chat ADD COLUMN json_answers TEXT;                         -- JSON; NULL: as the model writes
