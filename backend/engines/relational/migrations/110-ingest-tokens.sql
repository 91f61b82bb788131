-- Ingest tokens, one row for each secret: `id` names the token and stays the same when it is rotated, and `token_hash` (SHA-256) finds the
-- secret. `kind`, `owner_id` and `node` are the identity under which everything is stored that is sent with it. `signals` and `networks`
-- are separated by commas; no network means any. `retires_at` is the end of the overlap of a secret that was rotated.
CREATE TABLE ingest_tokens (
  token_hash text NOT NULL PRIMARY KEY,
  id uuid NOT NULL,
  org_id uuid NOT NULL REFERENCES orgs (id),
  name text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('cluster', 'host', 'direct')),
  owner_id uuid NOT NULL,
  node text NOT NULL,
  signals text NOT NULL,
  networks text NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz,
  retires_at timestamptz,
  last_used_at timestamptz
);

CREATE INDEX ingest_tokens_by_org ON ingest_tokens (org_id, name, id);

CREATE INDEX ingest_tokens_by_id ON ingest_tokens (id);
