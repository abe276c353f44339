-- law: job-stalled
-- stratum: absence
-- needs: external_signal
-- claim: A stop from outside that comes long after the last progress ended a job that already stood still: the signal is not the cause.
-- source: a healthy job makes steps at its own rhythm until the second it is stopped
WITH rhythm AS (
    SELECT attempt, max(ts) AS last_ts, median(gap) AS usual, count(*) AS n FROM (
        SELECT attempt, ts, epoch_ms(ts) - epoch_ms(lag(ts) OVER (PARTITION BY attempt, rank ORDER BY ts)) AS gap FROM steps WHERE ts IS NOT NULL)
    GROUP BY attempt
),
stops AS (
    SELECT f.attempt, min(e.ts) AS ts, min(e.event_id) AS event_id FROM facts f JOIN ev e ON e.event_id = f.first_event_id
    WHERE f.predicate = 'external_signal' AND f.status = 'active' AND e.ts_origin = 'own' GROUP BY f.attempt
)
SELECT r.attempt, 'timed_out_waiting' AS predicate, 'job' AS subject_kind, 'job' AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    r.last_ts AS onset_low, s.ts AS onset_high, CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, CAST(NULL AS BIGINT) AS step, CAST(NULL AS VARCHAR) AS coverage,
    1 AS events, s.event_id AS first_event_id, s.event_id AS last_event_id,
    json_object('idle_ms', epoch_ms(s.ts) - epoch_ms(r.last_ts), 'usual_ms', r.usual) AS attrs
FROM rhythm r JOIN stops s USING (attempt)
WHERE epoch_ms(s.ts) - epoch_ms(r.last_ts) > greatest(20 * coalesce(r.usual, 1000), 10000)
