-- Question: what became of each rank in each attempt?
-- Inputs:   streams, steps, ev (events of the attempt), known_ranks (what launchers and NCCL said), world (attempt, rank)
-- Output:   the columns of `ranks`
WITH consoles AS (  -- a file in which several ranks write covers every rank of its machine
    SELECT count(*) AS n FROM (SELECT source_id FROM streams WHERE rank IS NOT NULL OR key LIKE '%tee:%' OR key LIKE '%label:%' OR key LIKE '%mpi:%'
        GROUP BY source_id HAVING count(DISTINCT coalesce(CAST(rank AS VARCHAR), key)) > 1)
),
machines AS (SELECT greatest(1, count(DISTINCT host)) AS n FROM streams WHERE host IS NOT NULL),
shared AS (SELECT c.n > 0 AND c.n >= m.n AS covers FROM consoles c, machines m),
seen AS (
    SELECT s.attempt, s.rank, min(s.host) AS host, min(s.local_rank) AS local_rank, min(s.pid) AS pid,
        count(DISTINCT s.source_id) AS files,
        -- a console that breaks off may have lost lines of everyone who writes there
        bool_or(s.ending = 'torn' OR s.source_id IN (SELECT source_id FROM streams WHERE ending = 'torn')) AS torn
    FROM streams s WHERE s.rank IS NOT NULL GROUP BY ALL
),
progress AS (
    SELECT attempt, rank, max(step) AS last_step, min(ts) AS first_ts, max(ts) AS last_ts
    FROM steps WHERE rank IS NOT NULL GROUP BY ALL
),
spoken AS (
    SELECT attempt, rank, min(ts) AS first_ts, max(ts) AS last_ts, max(seq) AS last_seq,
        bool_or(kind = 'finished') AS finished,
        bool_or(kind IN ('raised', 'out_of_memory', 'host_memory', 'io_failed', 'device_assert', 'illegal_access', 'worker_died',
            'nan_global', 'nan_local', 'misconfigured', 'unused_parameters', 'scale_exhausted') AND coalesce(attrs->>'uncaught', 'true') = 'true') AS raised,
        bool_or(kind IN ('timed_out_waiting', 'lost_connection', 'store_wait', 'remote_error', 'lost_store', 'watchdog_stuck')) AS waiting,
        bool_or(kind IN ('crashed')) AS crashed
    FROM ev WHERE rank IS NOT NULL AND coalesce(attrs->>'subject_rank', '') = '' GROUP BY ALL
),
exits AS (
    SELECT attempt, peer_rank AS rank, arg_max(TRY_CAST((attrs->>'exitcode') AS INTEGER), event_id) AS exit_code,
        arg_max(attrs->>'signal', event_id) AS signal
    FROM ev WHERE kind = 'exit_record' AND peer_rank IS NOT NULL GROUP BY ALL
)
SELECT w.attempt, w.rank, coalesce(s.host, k.host) AS host, coalesce(s.local_rank, k.local_rank) AS local_rank, k.gpu, k.pci_bus,
    coalesce(k.pid, s.pid) AS pid, least(p.first_ts, o.first_ts) AS first_ts, greatest(p.last_ts, o.last_ts) AS last_ts,
    p.last_step, o.last_seq, x.exit_code, x.signal,
    CASE
        WHEN o.finished OR x.exit_code = 0 THEN 'completed'
        WHEN x.signal = 'SIGTERM' AND NOT coalesce(o.raised, false) AND NOT coalesce(o.waiting, false) THEN 'terminated'
        WHEN x.signal IS NOT NULL AND x.signal <> 'SIGTERM' THEN 'killed'
        WHEN o.crashed THEN 'killed'
        WHEN o.waiting THEN 'waiting'
        WHEN o.raised THEN 'raised'
        WHEN x.exit_code > 0 THEN 'exited'
        WHEN s.rank IS NULL AND NOT h.covers THEN 'no_log'
        ELSE 'silent'
    END AS state,
    CASE
        WHEN s.rank IS NULL AND NOT h.covers THEN 'absent'
        WHEN o.finished OR o.raised OR o.waiting OR o.crashed THEN 'closed'
        WHEN s.torn THEN 'torn'  -- also where a launcher knows the end: what it said before is what is missing
        WHEN x.exit_code IS NOT NULL OR x.signal IS NOT NULL THEN 'closed'
        ELSE 'open'
    END AS coverage,
    coalesce(s.files, 0) AS files
FROM world w CROSS JOIN shared h
LEFT JOIN seen s USING (attempt, rank)
LEFT JOIN known_ranks k USING (attempt, rank)
LEFT JOIN progress p USING (attempt, rank)
LEFT JOIN spoken o USING (attempt, rank)
LEFT JOIN exits x USING (attempt, rank)
ORDER BY w.attempt, w.rank
