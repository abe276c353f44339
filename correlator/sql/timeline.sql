-- Question: what happened, in order, in each incident?
-- Inputs:   ev, facts, roles (incident, fact, role), incidents, sources
-- Output:   the columns of `timeline`; t_ms counts from the onset (null where no clock is known)
WITH spoken AS (
    SELECT r.incident_id, r.role, f.predicate, f.subject, f.subject_kind, f.attempt, f.first_event_id, f.last_event_id, f.object
    FROM roles r JOIN facts f USING (fact_id) WHERE f.predicate <> 'group_broken'
),
rows_ AS (
    SELECT s.incident_id, e.attempt, e.ts, e.ts_uncertainty_ms, e.ts_origin, coalesce(e.rank, TRY_CAST((e.attrs->>'subject_rank') AS INTEGER)) AS rank, e.host, e.step, s.role, e.kind,
        e.message, e.source_id, e.line, e.event_id, row_number() OVER (PARTITION BY s.incident_id, e.event_id ORDER BY s.role) AS copy
    FROM spoken s JOIN ev e ON e.attempt = s.attempt AND e.event_id BETWEEN s.first_event_id AND s.last_event_id
        AND (e.event_id = s.first_event_id OR (e.kind = s.predicate AND (s.subject_kind <> 'rank' OR CAST(coalesce(TRY_CAST((e.attrs->>'subject_rank') AS INTEGER), e.rank) AS VARCHAR) = s.subject)))
    UNION ALL
    SELECT i.incident_id, e.attempt, e.ts, e.ts_uncertainty_ms, e.ts_origin, coalesce(e.peer_rank, e.rank), e.host, e.step,
        CASE WHEN e.kind = 'exit_record' AND list_contains(i.initiating_ranks, e.peer_rank) THEN 'initiating' WHEN e.kind IN ('exit_record', 'signalled') THEN 'teardown' ELSE 'benign' END,
        e.kind, e.message, e.source_id, e.line, e.event_id, 2
    FROM incidents i JOIN ev e ON e.attempt = i.attempt AND e.kind IN ('exit_record', 'signalled', 'restart', 'checkpoint_saved', 'finished', 'activity')
    WHERE e.event_id NOT IN (SELECT first_event_id FROM spoken WHERE first_event_id IS NOT NULL)
)
SELECT r.incident_id, r.attempt, (epoch_us(r.ts) - epoch_us(i.onset_ts)) / 1000.0 AS t_ms, r.ts, r.ts_uncertainty_ms,
    CASE r.ts_origin WHEN 'own' THEN 'clock' WHEN 'derived' THEN 'clock' WHEN 'inherited' THEN 'line' ELSE 'none' END AS order_basis, r.rank, r.host, r.step, r.role, r.kind,
    i.failure_class, r.message, s.path, r.line
FROM rows_ r JOIN incidents i USING (incident_id) JOIN sources s USING (source_id)
WHERE r.copy = 1 OR r.copy = 2 AND r.kind IN ('exit_record', 'signalled', 'restart', 'checkpoint_saved', 'finished', 'activity')
ORDER BY r.incident_id, r.ts NULLS LAST, s.path, r.line, r.event_id
