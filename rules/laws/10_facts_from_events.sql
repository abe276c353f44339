-- law: facts-from-events
-- stratum: derive
-- claim: A thousand repeats of one statement about one subject are one fact; its onset is the logged time minus how long it waited, and at the earliest also minus how long the software retried before it spoke.
-- source: detection is not onset: "ran for N ms", "Timed out waiting N ms" count from the enqueue (ProcessGroupNCCL.cpp, gloo unbound_buffer.cc); an InfiniBand completion error comes after all retries (7 times 4.096 us x 2^20, NCCL 2.23 on: 30 s); NCCL gives up a connection after about 60 s of retries (misc/socket.cc)
WITH lone_quotes AS (  -- a load without a process group calls its own process rank 0: real quotes of a rank stand in every peer's log
    SELECT e.attempt, e.source_id FROM ev e
    WHERE e.source = 'python' AND (e.attrs->>'second_hand') = 'true' AND e.rank IS NOT NULL AND (e.attrs->>'subject_rank') = '0' AND e.rank <> 0
        AND (SELECT count(*) FROM ranks r WHERE r.attempt = e.attempt AND r.files > 0) > 2
        AND (SELECT count(DISTINCT o.rank) FROM ev o WHERE o.attempt = e.attempt AND o.source = 'python' AND (o.attrs->>'second_hand') = 'true' AND o.rank IS NOT NULL) = 1
),
statements AS (
    SELECT e.*, p.can_initiate, p.certainty,
        CASE WHEN (e.attempt, e.source_id) NOT IN (SELECT (attempt, source_id) FROM lone_quotes) THEN TRY_CAST((e.attrs->>'subject_rank') AS INTEGER) END AS named_rank,
        CASE WHEN e.kind IN ('raised', 'warned') THEN coalesce(e.attrs->>'exception', e.attrs->>'signature') END AS what
    FROM ev e JOIN predicates p ON p.predicate = e.kind
    WHERE e.kind NOT IN ('group_broken')
),
placed AS (
    SELECT *,
        CASE
            WHEN e.kind IN ('external_signal', 'preempted') THEN 'agent'
            WHEN coalesce(e.named_rank, e.rank) IS NOT NULL THEN 'rank'
            WHEN (e.attrs->>'agent') = 'true' THEN 'agent'
            WHEN (e.attrs->>'scope') IN ('host', 'job') THEN (e.attrs->>'scope')
            WHEN e.source IN ('kernel', 'nvidia_smi', 'slurm', 'kubernetes') THEN 'host'
            ELSE 'process'
        END AS subject_kind
    FROM statements e
),
subjects AS (
    SELECT *,
        CASE subject_kind
            WHEN 'rank' THEN CAST(coalesce(named_rank, rank) AS VARCHAR)
            WHEN 'agent' THEN coalesce(host, 'agent' || source_id)
            WHEN 'host' THEN coalesce(host, (attrs->>'host'), (attrs->>'pod'), peer_host, 'host' || source_id)
            WHEN 'job' THEN 'job'
            ELSE 's' || stream_id
        END AS subject,
        coalesce(duration_ms, 0) AS waited_ms,
        CASE WHEN kind = 'remote_error' AND (attrs->>'status') IN ('12', '13') THEN 30000 WHEN source = 'nccl' AND message LIKE '%exceeded error retry count%' THEN 60000 ELSE 0 END AS retried_ms
    FROM placed
)
SELECT attempt, kind AS predicate, subject_kind, subject,
    CASE WHEN what IS NOT NULL THEN 'exception' WHEN any_value(peer_rank) IS NOT NULL THEN 'rank' WHEN any_value(peer_host) IS NOT NULL THEN 'host' END AS object_kind,
    coalesce(what, CAST(peer_rank AS VARCHAR), peer_host) AS object,
    min(CASE WHEN ts_origin = 'own' THEN ts - to_microseconds(CAST((waited_ms + retried_ms + ts_uncertainty_ms) * 1000 AS BIGINT))
        WHEN ts_origin IN ('inherited', 'derived') THEN ts - to_microseconds(CAST((retried_ms + ts_uncertainty_ms) * 1000 AS BIGINT)) END) AS onset_low,
    min(CASE WHEN ts_origin IN ('own', 'derived') THEN ts - to_microseconds(CAST((waited_ms - ts_uncertainty_ms) * 1000 AS BIGINT)) END) AS onset_high,
    pg, seq, min(step) AS step, CAST(NULL AS VARCHAR) AS coverage, count(*) AS events,
    -- the statement quoted first is the strongest: uncaught, then one that a rule knows, then the earliest
    arg_min(event_id, (CASE WHEN (attrs->>'uncaught') = 'true' THEN 0 ELSE 1 END, CASE WHEN (attrs->>'second_hand') = 'true' THEN 1 ELSE 0 END,
        CASE WHEN (attrs->>'rule') IS NOT NULL THEN 0 ELSE 1 END, event_id)) AS first_event_id,
    max(event_id) AS last_event_id,
    arg_min(attrs, (CASE WHEN (attrs->>'uncaught') = 'true' THEN 0 ELSE 1 END, CASE WHEN (attrs->>'second_hand') = 'true' THEN 1 ELSE 0 END,
        CASE WHEN (attrs->>'rule') IS NOT NULL THEN 0 ELSE 1 END, event_id)) AS attrs
FROM subjects
GROUP BY attempt, kind, subject_kind, subject, what, peer_rank, peer_host, pg, seq
