-- Users whom an identity provider vouches for: its issuer, and what it calls them. Such a user has no password.
ALTER TABLE users ADD COLUMN sso_issuer text;

ALTER TABLE users ADD COLUMN sso_subject text;

CREATE UNIQUE INDEX users_by_sso ON users (sso_issuer, sso_subject);

-- Sessions of browsers. The cookie is signed and not kept: its row says that the session was not ended.
CREATE TABLE browser_sessions (
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);

CREATE INDEX browser_sessions_by_user ON browser_sessions (user_id, created_at);
