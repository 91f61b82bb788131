-- Where alerts go. `settings` is what anybody in the organisation may read. `secret` and `previous_secret` are under the master key that
-- `master_key_id` names, bound to organisation and channel. `heartbeat_seconds`: how often the channel is told that alerting lives.
CREATE TABLE channels (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  name text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('webhook', 'slack', 'pagerduty', 'email')),
  settings jsonb NOT NULL,
  secret text NOT NULL,
  previous_secret text,
  master_key_id text NOT NULL,
  secret_rotated_at timestamptz,
  enabled boolean NOT NULL,
  heartbeat_seconds integer,
  last_heartbeat_at timestamptz,
  created_at timestamptz NOT NULL,
  UNIQUE (org_id, name)
);

CREATE INDEX channels_by_master_key ON channels (master_key_id);

-- Which alerts go to which channels, in order of `position`; the default one takes what no other took. Lists are JSON.
CREATE TABLE routes (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  position integer NOT NULL,
  matchers jsonb NOT NULL,
  channel_ids jsonb NOT NULL,
  group_by jsonb NOT NULL,
  group_wait_seconds integer NOT NULL,
  group_interval_seconds integer NOT NULL,
  repeat_interval_seconds integer NOT NULL,
  continue boolean NOT NULL,
  is_default boolean NOT NULL,
  created_at timestamptz NOT NULL
);

CREATE INDEX routes_by_org ON routes (org_id, position, id);

CREATE UNIQUE INDEX routes_default ON routes (org_id) WHERE is_default;

CREATE TABLE silences (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  matchers jsonb NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL,
  created_by text NOT NULL,
  comment text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE INDEX silences_by_org ON silences (org_id, ends_at, id);

-- What the evaluator said last, of organisations that have a channel. `ends_at`: when it said that the alert has ended, null while it fires;
-- `expires_at`: when it is over without another word. `bytes`: of its text, for the bound of an organisation.
CREATE TABLE alerts (
  org_id uuid NOT NULL REFERENCES orgs (id),
  fingerprint text NOT NULL,
  rule_id uuid NOT NULL,
  labels jsonb NOT NULL,
  annotations jsonb NOT NULL,
  bytes integer NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz,
  expires_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (org_id, fingerprint)
);

CREATE INDEX alerts_by_rule ON alerts (org_id, rule_id);

-- What was sent to a channel about a group of alerts. `firing`: fingerprint → "notified", or "silenced" if it was silenced later.
CREATE TABLE alert_groups (
  org_id uuid NOT NULL REFERENCES orgs (id),
  route_id uuid NOT NULL REFERENCES routes (id) ON DELETE CASCADE,
  channel_id uuid NOT NULL REFERENCES channels (id) ON DELETE CASCADE,
  group_key text NOT NULL,
  labels jsonb NOT NULL,
  firing jsonb NOT NULL,
  last_sent_at timestamptz,
  next_at timestamptz NOT NULL,
  PRIMARY KEY (org_id, route_id, channel_id, group_key)
);

CREATE INDEX alert_groups_by_route ON alert_groups (route_id);

CREATE INDEX alert_groups_by_channel ON alert_groups (channel_id);

-- Messages on their way, and those of the last 30 days. The id is the `webhook-id`. `message` is null once it is over. The channel may be
-- gone. `locked_until`: a replica is sending it.
CREATE TABLE deliveries (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  channel_id uuid NOT NULL,
  route_id uuid,
  group_key text NOT NULL,
  rule_ids jsonb NOT NULL,
  message jsonb,
  status text NOT NULL CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts integer NOT NULL,
  next_at timestamptz NOT NULL,
  locked_until timestamptz,
  http_status integer,
  error text,
  created_at timestamptz NOT NULL,
  delivered_at timestamptz
);

CREATE INDEX deliveries_by_org ON deliveries (org_id, created_at, id);

CREATE INDEX deliveries_by_time ON deliveries (created_at);

CREATE INDEX deliveries_pending ON deliveries (org_id, channel_id, next_at) WHERE status = 'pending';

-- When an organisation's alerts are to be looked at again (null: not before something happens), which replica does it until when, and how
-- many messages it was sent in the minute that began at `minute_at`.
CREATE TABLE notification_turns (
  org_id uuid NOT NULL PRIMARY KEY REFERENCES orgs (id),
  due_at timestamptz,
  locked_until timestamptz,
  minute_at timestamptz,
  minute_count integer NOT NULL
);

CREATE INDEX notification_turns_due ON notification_turns (due_at);
