-- CHECK and NOT NULL constraints of a tiered table that rows it had when it became tiered may violate: PostgreSQL has not
-- validated them.
ALTER TABLE pg_journal.journals ADD COLUMN unvalidated oid[] NOT NULL DEFAULT '{}';

-- NOT NULL counts among the constraints that are known.
UPDATE pg_journal.journals j
   SET checks = ARRAY(SELECT x.oid FROM pg_constraint x WHERE x.conrelid = j.relid AND x.contype IN ('c', 'f', 'n') ORDER BY 1),
       unvalidated = ARRAY(SELECT x.oid FROM pg_constraint x
                            WHERE x.conrelid = j.relid AND j.residency = 'tiered' AND x.contype IN ('c', 'n')
                              AND NOT x.convalidated ORDER BY 1);
