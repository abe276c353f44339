-- law: init-incomplete
-- stratum: derive
-- needs: init_start
-- claim: A communicator is initialised by all its ranks together; where some say that it is complete and others never do although the log goes on, the others are stuck in it. Who holds them is not in these lines.
-- source: NCCL init.cc: Init START and Init COMPLETE of one commId
WITH inits AS (
    SELECT attempt, pg, rank, bool_or(kind = 'init_done') AS done, min(event_id) AS event_id, count(*) OVER (PARTITION BY attempt, pg) AS n
    FROM ev WHERE kind IN ('init_start', 'init_done') AND rank IS NOT NULL AND pg IS NOT NULL GROUP BY attempt, pg, rank
),
mixed AS (SELECT attempt, pg FROM inits GROUP BY attempt, pg HAVING bool_or(done) AND NOT bool_and(done))
SELECT i.attempt, 'timed_out_waiting' AS predicate, 'rank' AS subject_kind, CAST(i.rank AS VARCHAR) AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    CAST(NULL AS TIMESTAMPTZ) AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, i.pg, CAST(NULL AS BIGINT) AS seq, CAST(NULL AS BIGINT) AS step, CAST(NULL AS VARCHAR) AS coverage,
    1 AS events, i.event_id AS first_event_id, i.event_id AS last_event_id, json_object('why', 'communicator init never completed') AS attrs
FROM inits i JOIN mixed m USING (attempt, pg)
WHERE NOT i.done AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.attempt = i.attempt)
    AND NOT EXISTS (SELECT 1 FROM facts f JOIN predicates p USING (predicate) WHERE f.attempt = i.attempt AND p.ends_subject)
