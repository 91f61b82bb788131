-- Channels of further kinds. SQLite cannot change a constraint, so a column without a list of kinds replaces the one that has it; the API
-- accepts only known kinds.
ALTER TABLE channels ADD COLUMN any_kind text NOT NULL DEFAULT 'webhook';

UPDATE channels SET any_kind = kind;

ALTER TABLE channels DROP COLUMN kind;

ALTER TABLE channels RENAME COLUMN any_kind TO kind;
