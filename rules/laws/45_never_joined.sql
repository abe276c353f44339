-- law: never-joined
-- stratum: derive
-- needs: store_wait, accused
-- claim: A rank that a start-up wait names and that waits for nobody itself never joined. A named rank that waits too is innocent: follow the chain to the rank that is silent. A rank without any log that one rank alone waits for, while others work in collectives, is that one's mistake about the size of the job.
-- source: gloo publishes one key a rank (.../cpu//0/2 names group rank 2); TCPStore counts clients ("3/4 clients joined")
WITH waits AS (
    SELECT f.attempt, f.subject_kind, f.subject, f.object, f.first_event_id, f.onset_low, f.onset_high, TRY_CAST((f.attrs->>'joined') AS INTEGER) AS joined,
        TRY_CAST((f.attrs->>'world') AS INTEGER) AS world
    FROM facts f WHERE f.predicate = 'store_wait'
),
speakers AS (
    SELECT DISTINCT f.attempt, f.subject AS rank FROM facts f JOIN predicates p USING (predicate)
    WHERE f.subject_kind = 'rank' AND p.certainty = 'words' AND p.ends_subject
),
named AS (
    SELECT attempt, object AS rank, min(first_event_id) AS event_id, min(onset_low) AS onset_low, count(DISTINCT subject) AS witnesses, 'named by a waiting rank' AS why
    FROM waits WHERE object IS NOT NULL AND TRY_CAST(object AS INTEGER) IS NOT NULL GROUP BY ALL
),
counted AS (  -- only a count is known: the ranks with no word at all, if their number fits
    SELECT w.attempt, CAST(r.rank AS VARCHAR) AS rank, min(w.first_event_id) AS event_id, min(w.onset_low) AS onset_low, 1 AS witnesses, 'not among the clients that joined' AS why,
        any_value(w.world - w.joined) AS missing
    FROM waits w JOIN ranks r ON r.attempt = w.attempt
    WHERE w.joined IS NOT NULL AND NOT EXISTS (SELECT 1 FROM speakers s WHERE s.attempt = w.attempt AND s.rank = CAST(r.rank AS VARCHAR))
        AND r.last_step IS NULL
    GROUP BY w.attempt, r.rank
    QUALIFY count(*) OVER (PARTITION BY w.attempt) = any_value(w.world - w.joined)
),
candidates AS (
    SELECT attempt, rank, event_id, onset_low, witnesses, why FROM named
    UNION ALL SELECT attempt, rank, event_id, onset_low, witnesses, why FROM counted
)
SELECT c.attempt, 'never_joined' AS predicate, 'rank' AS subject_kind, c.rank AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    min(c.onset_low) AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, CAST(NULL AS BIGINT) AS step,
    any_value(r.coverage) AS coverage, 1 AS events, min(c.event_id) AS first_event_id, min(c.event_id) AS last_event_id,
    json_object('why', any_value(c.why), 'witnesses', max(c.witnesses)) AS attrs
FROM candidates c LEFT JOIN ranks r ON r.attempt = c.attempt AND CAST(r.rank AS VARCHAR) = c.rank
WHERE NOT EXISTS (SELECT 1 FROM speakers s WHERE s.attempt = c.attempt AND s.rank = c.rank)
    AND (r.last_step IS NULL)
    AND NOT (c.witnesses = 1 AND coalesce(r.coverage, 'absent') = 'absent' AND (
        SELECT count(DISTINCT f.subject) FROM facts f WHERE f.attempt = c.attempt AND f.predicate = 'timed_out_waiting' AND f.subject_kind = 'rank'
            AND (f.attrs->>'direction') IS NOT NULL) >= 2)
GROUP BY c.attempt, c.rank
