-- Inhibition rules and time intervals. `kind`: `inhibit_rule` or `time_interval`; `body`: as the API has it, without its name. Routes name the
-- intervals in which they do not notify, and those outside of which they do not.
CREATE TABLE notification_settings (
  id uuid PRIMARY KEY,
  org_id uuid NOT NULL REFERENCES orgs (id),
  kind text NOT NULL,
  name text NOT NULL,
  body jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  UNIQUE (org_id, kind, name)
);

ALTER TABLE routes ADD COLUMN mute_time_intervals jsonb NOT NULL DEFAULT '[]';

ALTER TABLE routes ADD COLUMN active_time_intervals jsonb NOT NULL DEFAULT '[]';
