-- law: group-breaks
-- stratum: explain
-- claim: A member that ended, stalled or differs breaks the group; everyone who waits, loses a connection or is stopped is hit through the group. One hub, so that sixteen thousand victims are sixteen thousand edges.
-- source: NCCL and gloo have no failure detector: peers notice only through the collective, the socket or the launcher
WITH hubs AS (SELECT fact_id, attempt FROM facts WHERE predicate = 'group_broken' AND status = 'active'),
causes AS (
    SELECT f.*, p.certainty, p.can_initiate FROM facts f JOIN predicates p USING (predicate)
    WHERE f.status = 'active' AND p.can_initiate <> 'no' AND f.predicate NOT IN ('warned')
),
effects AS (
    SELECT f.* FROM facts f JOIN predicates p USING (predicate)
    WHERE f.status = 'active' AND p.can_initiate = 'no' AND f.predicate NOT IN ('group_broken', 'warned', 'teardown_noise')
),
first_effect AS (SELECT attempt, min(onset_high) AS at FROM effects WHERE predicate <> 'terminated' GROUP BY attempt)
SELECT c.attempt, c.fact_id AS cause, h.fact_id AS effect,
    CASE WHEN c.certainty = 'absence' THEN CASE WHEN coalesce(TRY_CAST((c.attrs->>'tier') AS INTEGER), 1) <= 5 THEN 'strong' ELSE 'weak' END ELSE 'structural' END AS grade,
    CASE WHEN c.onset_high IS NULL OR e.at IS NULL THEN 'none' ELSE 'clock' END AS basis, 'its end or absence breaks the group' AS why
FROM causes c JOIN hubs h USING (attempt) LEFT JOIN first_effect e USING (attempt)
WHERE NOT (c.onset_low IS NOT NULL AND e.at IS NOT NULL AND c.certainty <> 'absence' AND c.onset_low > e.at + INTERVAL 5 SECONDS AND (c.attrs->>'owner') IS NULL)
UNION ALL
SELECT x.attempt, h.fact_id, x.fact_id, 'structural', 'none', 'it waits for the group or is stopped with it'
FROM effects x JOIN hubs h USING (attempt)
UNION ALL
-- who left the loop calls other collectives than those who stayed: the difference, and what it makes of processes, come from that
SELECT a.attempt, a.fact_id, b.fact_id, 'strong', 'step', 'it had left the loop'
FROM facts a JOIN facts b ON a.attempt = b.attempt AND a.fact_id <> b.fact_id
WHERE a.status = 'active' AND b.status = 'active' AND a.predicate = 'left_early' AND b.predicate IN ('mismatch', 'stalled', 'vanished', 'busy', 'aborted', 'died', 'raised', 'crashed')
