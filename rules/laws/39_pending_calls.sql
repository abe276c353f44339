-- law: pending-calls
-- stratum: derive
-- needs: fr_dump
-- claim: A call that a rank's flight recorder shows as made and not completed, where its group stood still, is a wait like one that a watchdog reports. A dump of a job that made steps afterwards was taken on demand and shows calls in flight.
-- source: FlightRecorder.hpp: dumps hold state scheduled, started or completed; retired without completed has timed out
WITH pending AS (
    SELECT c.attempt, c.rank, c.pg, c.seq, c.op, c.state, c.enqueued_ts, c.timeout_ms FROM collectives c
    WHERE c.awaited AND c.basis = 'dump' AND c.completed_ts IS NULL AND c.state NOT IN ('completed', 'never_arrived')
    QUALIFY row_number() OVER (PARTITION BY c.attempt, c.pg, c.rank ORDER BY c.seq) = 1
),
-- two steps after the call: the job lived. A log whose last step stands whole quarters of an hour later has a clock of another zone.
went_on AS (
    SELECT p.attempt FROM (SELECT attempt, max(enqueued_ts) AS ts FROM pending GROUP BY attempt) p JOIN steps s ON s.attempt = p.attempt AND s.ts > p.ts + INTERVAL 1 SECOND
    GROUP BY p.attempt, p.ts
    HAVING count(DISTINCT s.step) >= 2 AND NOT (epoch(max(s.ts)) - epoch(p.ts) > 800 AND abs((epoch(max(s.ts)) - epoch(p.ts) + 450) % 900 - 450) < 15)
),
quoted AS (
    SELECT attempt, rank, coalesce(pg, '0') AS pg, seq, min(event_id) AS event_id FROM ev WHERE kind = 'enqueued' AND source = 'flight_recorder' GROUP BY ALL
)
SELECT p.attempt, 'timed_out_waiting' AS predicate, 'rank' AS subject_kind, CAST(p.rank AS VARCHAR) AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    p.enqueued_ts AS onset_low, p.enqueued_ts AS onset_high, p.pg, p.seq, CAST(NULL AS BIGINT) AS step, CAST(NULL AS VARCHAR) AS coverage, 1 AS events,
    q.event_id AS first_event_id, q.event_id AS last_event_id,
    json_object('why', 'pending in its flight recorder', 'op', p.op, 'state', p.state, 'timeout_ms', p.timeout_ms, 'dump', true) AS attrs
FROM pending p LEFT JOIN quoted q USING (attempt, rank, pg, seq)
WHERE NOT EXISTS (SELECT 1 FROM went_on w WHERE w.attempt = p.attempt)
    AND NOT EXISTS (SELECT 1 FROM facts f WHERE f.attempt = p.attempt AND f.predicate = 'timed_out_waiting' AND f.subject_kind = 'rank' AND f.subject = CAST(p.rank AS VARCHAR))
