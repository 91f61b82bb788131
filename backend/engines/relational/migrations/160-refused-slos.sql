-- As in `rules`: `revision` is that of the objective's own last change, and `refused` is why the evaluator refused the rules that record its
-- burn rates in this revision; an objective that it refused is withheld from it.
ALTER TABLE slos ADD COLUMN revision integer NOT NULL DEFAULT 1;

ALTER TABLE slos ADD COLUMN refused text;
