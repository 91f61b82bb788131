-- Organisations (tenants) and their users. Passwords are Argon2id hashes; `session_epoch` grows with each password change, which
-- ends every session that was opened before.
CREATE TABLE orgs (
  id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL
);

CREATE TABLE users (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  email text NOT NULL UNIQUE,
  password_hash text NOT NULL,
  role text NOT NULL CHECK (role IN ('viewer', 'admin', 'operator')),
  session_epoch integer NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL
);

CREATE INDEX users_by_org ON users (org_id);
