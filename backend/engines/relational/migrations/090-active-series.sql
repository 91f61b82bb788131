-- A limit of an organisation as the others, and the most that were seen of a day; null: not counted.
ALTER TABLE org_limits ADD COLUMN active_series float8;

ALTER TABLE usage_days ADD COLUMN active_series float8;
