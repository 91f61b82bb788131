-- The deduplication token of the insert that a body of logs or spans is part of. Once another insert has used the token, that one stores
-- nothing. NULL: claimed by an earlier version of the backend.
ALTER TABLE body_claims ADD COLUMN insert_id text;
