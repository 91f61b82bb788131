-- When the rows of a claimed body were received, in seconds since 1970, by the slowest clock of the replicas that may store them: a replica
-- that takes the body over looks for rows since then. NULL: claimed by an earlier version of the backend.
ALTER TABLE body_claims ADD COLUMN received_s int8;
