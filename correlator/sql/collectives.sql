-- Question: of calls that are numbered, who enqueued, started, completed, timed out or never arrived at which collective of which group?
-- Inputs:   ev (groups settled), process_groups. Sequence numbers are compared only inside one group (pg); a rank without a
--           global number is left out, and so are groups that cannot be told apart (name ends in ?).
-- Output:   the columns of `collectives`. state, strongest first: mismatched, timed_out, completed, started, enqueued;
--           never_arrived for members that are known not to have made a call that another member waits for. basis: words
--           (the rank's own log lines), dump (its flight recorder), absence (its last call is an earlier one), accused
--           (a report names it). awaited marks the calls at which the group stood still, at most three a group.
WITH dump_times AS (
    SELECT attempt, median(TRY_CAST((attrs->>'oldest_us') AS BIGINT)) AS begun FROM ev WHERE kind = 'fr_dump' GROUP BY attempt
),
dumps AS (  -- one dump a rank: the newest; one that ends well before the others begin is a leftover of an earlier run
    SELECT e.attempt, e.rank, arg_max(e.source_id, (coalesce(TRY_CAST((e.attrs->>'newest_us') AS BIGINT), 0), e.source_id)) AS source_id,
        bool_or(coalesce(e.attrs->>'whole', 'false') = 'true') AS whole
    FROM ev e JOIN dump_times t USING (attempt)
    WHERE e.kind = 'fr_dump' AND e.rank IS NOT NULL AND coalesce(TRY_CAST((e.attrs->>'newest_us') AS BIGINT) >= t.begun - 10000000, true) GROUP BY e.attempt, e.rank
),
heard AS (  -- what was said of the writer's own calls; of dumps only those that count
    SELECT e.attempt, coalesce(e.pg, '0') AS pg, e.seq, e.rank, e.op, e.kind, e.attrs, e.ts, e.ts_origin, e.duration_ms, e.event_id,
        e.source = 'flight_recorder' AS dumped
    FROM ev e
    WHERE e.kind IN ('timed_out_waiting', 'enqueued', 'completed', 'pg_status') AND e.rank IS NOT NULL AND coalesce(e.pg, '0') NOT LIKE '%?'
        AND (e.source <> 'flight_recorder' OR EXISTS (SELECT 1 FROM dumps d WHERE d.attempt = e.attempt AND d.rank = e.rank AND d.source_id = e.source_id))
),
mixed AS (  -- groups with point-to-point calls: their status lines count two kinds of calls in one field
    SELECT attempt, pg FROM heard WHERE (attrs->>'mixed') = 'true' OR op IN ('SEND', 'RECV', 'COALESCED') GROUP BY ALL
),
statements AS (
    SELECT attempt, pg, seq, rank, op, (attrs->>'numel_in') AS numel_in, (attrs->>'numel_out') AS numel_out, (attrs->>'dtype') AS dtype,
        concat_ws(' ', attrs->>'reduction', 'root ' || (attrs->>'root')) AS how,
        CASE WHEN kind = 'timed_out_waiting' AND duration_ms IS NOT NULL AND ts_origin = 'own'
            THEN ts - to_microseconds(CAST(duration_ms * 1000 AS BIGINT)) WHEN kind = 'enqueued' THEN ts END AS enqueued_ts,
        CASE WHEN kind = 'enqueued' THEN to_timestamp(TRY_CAST((attrs->>'started_us') AS BIGINT) / 1000000.0) END AS started_ts,
        CASE WHEN kind = 'completed' THEN ts END AS completed_ts,
        CASE WHEN kind = 'timed_out_waiting' OR (attrs->>'timed_out') = 'true' THEN 4 WHEN kind = 'completed' OR (attrs->>'state') = 'completed' THEN 3
            WHEN (attrs->>'state') = 'started' THEN 2 ELSE 1 END AS reached,
        TRY_CAST((attrs->>'timeout_ms') AS DOUBLE) AS timeout_ms, dumped
    FROM heard WHERE kind <> 'pg_status' AND seq IS NOT NULL
        AND NOT (kind = 'timed_out_waiting' AND coalesce(op, '') IN ('SEND', 'RECV', 'COALESCED'))  -- numbered apart from collectives
    UNION ALL  -- a status line proves two calls: the last enqueued and the last completed
    SELECT attempt, pg, unnest([TRY_CAST((attrs->>'last_enqueued') AS BIGINT), TRY_CAST((attrs->>'last_completed') AS BIGINT)]), rank, NULL, NULL, NULL, NULL, '',
        NULL, NULL, NULL, unnest([1, 3]), NULL, dumped
    FROM heard WHERE kind = 'pg_status' AND (attempt, pg) NOT IN (SELECT (attempt, pg) FROM mixed)
    UNION ALL  -- a fingerprint tells the operands of two ranks
    SELECT attempt, coalesce(pg, '0'), seq, TRY_CAST((attrs->>('$.' || who || '_rank')) AS INTEGER), regexp_extract(attrs->>('$.' || who), 'op=(\w+)', 1), regexp_extract(attrs->>('$.' || who), 'shape=([0-9, ]*)', 1),
        NULL, regexp_extract(attrs->>('$.' || who), 'dtype=(\w+)', 1), '', NULL, NULL, NULL, 1, NULL, false
    FROM (SELECT *, unnest(['self', 'other']) AS who FROM ev WHERE kind = 'mismatch' AND seq IS NOT NULL AND (attrs->>'why') = 'fingerprint' AND (attrs->>'garbled') IS NULL
        AND coalesce(pg, '0') NOT LIKE '%?')
    WHERE seq = coalesce(TRY_CAST(regexp_extract(attrs->>('$.' || who), 'seq=(\d+)', 1) AS BIGINT), seq)
),
calls AS (
    SELECT attempt, pg, seq, rank, any_value(op) AS op, any_value(numel_in) AS numel_in, any_value(numel_out) AS numel_out, any_value(dtype) AS dtype,
        nullif(max(how), '') AS how, min(enqueued_ts) AS enqueued_ts, min(started_ts) AS started_ts, max(completed_ts) AS completed_ts, max(reached) AS reached,
        max(timeout_ms) AS timeout_ms, bool_and(dumped) AS dumped
    FROM statements WHERE rank IS NOT NULL AND seq BETWEEN 1 AND 1000000000000 GROUP BY attempt, pg, seq, rank
),
-- ---- the vote: operands that must agree on all members -------------------------------------------
operands AS (
    SELECT attempt, pg, seq, rank, unnest(['op', 'size', 'dtype', 'how']) AS aspect,
        unnest([op, CASE WHEN NOT uneven THEN concat_ws('>', numel_in, numel_out) END, CASE WHEN NOT uneven THEN dtype END, CASE WHEN NOT uneven THEN how END]) AS value
    FROM (SELECT *, coalesce(op, '') IN ('ALLTOALL', 'ALLTOALL_BASE', 'GATHER', 'SCATTER') AS uneven FROM calls
        WHERE coalesce(op, '') NOT IN ('SEND', 'RECV', 'COALESCED', 'PUTSIGNAL', 'SIGNAL', 'WAITSIGNAL'))
),
opinions AS (SELECT attempt, pg, seq, aspect, value, count(*) AS n FROM operands WHERE coalesce(value, '') <> '' GROUP BY ALL),
polls AS (SELECT attempt, pg, seq, aspect, arg_max(value, n) AS value FROM opinions GROUP BY attempt, pg, seq, aspect HAVING count(*) > 1 AND max(n) * 2 > sum(n)),
odd AS (
    SELECT DISTINCT o.attempt, o.pg, o.seq, o.rank FROM operands o JOIN polls p USING (attempt, pg, seq, aspect) WHERE coalesce(o.value, '') <> '' AND o.value <> p.value
),
-- ---- where a group stood still ------------------------------------------------------------------
done AS (  -- what one member completed all members had called; not so for calls with a root
    SELECT attempt, pg, max(seq) AS seq FROM calls WHERE reached = 3 AND dumped AND coalesce(op, '') NOT IN ('BROADCAST', 'REDUCE', 'GATHER', 'SCATTER', '_REDUCE_OOP') GROUP BY ALL
),
waits AS (
    SELECT attempt, pg, seq FROM calls WHERE reached = 4 GROUP BY ALL
    UNION  -- the first call that a dump shows as unfinished
    SELECT c.attempt, c.pg, c.seq FROM (SELECT attempt, pg, rank, min(seq) AS seq FROM calls WHERE dumped AND reached <= 2 AND op IS NOT NULL AND pg NOT LIKE 'nccl:%' GROUP BY ALL) c
        LEFT JOIN done d USING (attempt, pg) WHERE c.seq > coalesce(d.seq, 0) GROUP BY ALL
    UNION  -- status lines are printed where something failed: calls beyond the last one that any member completed were pending
    SELECT attempt, pg, max(TRY_CAST((attrs->>'last_completed') AS BIGINT)) + 1 FROM heard WHERE kind = 'pg_status' AND NOT dumped
        AND (attempt, pg) NOT IN (SELECT (attempt, pg) FROM mixed) GROUP BY attempt, pg
        HAVING max(TRY_CAST((attrs->>'last_enqueued') AS BIGINT)) > max(TRY_CAST((attrs->>'last_completed') AS BIGINT))
            AND max(TRY_CAST((attrs->>'last_completed') AS BIGINT)) >= 0
    UNION  -- NCCL logs calls, not waits: of the ranks that are known to wait the one with the shortest list had called its last
    SELECT l.attempt, l.pg, min(l.seq) FROM (SELECT attempt, pg, rank, max(seq) AS seq FROM calls WHERE pg LIKE 'nccl:%' GROUP BY ALL) l
        JOIN (SELECT DISTINCT attempt, rank FROM ev WHERE kind IN ('timed_out_waiting', 'watchdog_stuck') AND rank IS NOT NULL) v USING (attempt, rank) GROUP BY ALL
),
awaited AS (SELECT attempt, pg, seq FROM waits QUALIFY row_number() OVER (PARTITION BY attempt, pg ORDER BY seq) <= 3),
-- ---- who is known not to have come ---------------------------------------------------------------
torn AS (SELECT attempt, rank FROM streams WHERE ending = 'torn' AND rank IS NOT NULL GROUP BY ALL),
bounds AS (  -- the last call of a rank in a group, where it is known to be the last
    SELECT attempt, pg, rank, max(TRY_CAST((attrs->>'last_enqueued') AS BIGINT)) AS last, false AS dumped FROM heard
    WHERE kind IN ('pg_status', 'timed_out_waiting') AND NOT dumped AND TRY_CAST((attrs->>'last_enqueued') AS BIGINT) BETWEEN 0 AND 1000000000000
        AND (attempt, pg) NOT IN (SELECT (attempt, pg) FROM mixed) GROUP BY ALL
    UNION ALL
    SELECT attempt, pg, rank, max(seq), true FROM calls WHERE dumped GROUP BY ALL
    UNION ALL  -- a member whose complete dump has no call of the group
    SELECT g.attempt, g.pg, g.rank, 0, true FROM process_groups g JOIN dumps d USING (attempt, rank)
    WHERE d.whole AND g.pg NOT LIKE 'nccl:%' AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.attempt = g.attempt AND c.pg = g.pg AND c.rank = g.rank)
    UNION ALL
    SELECT attempt, pg, rank, max(seq), false FROM calls c WHERE pg LIKE 'nccl:%' AND NOT EXISTS (SELECT 1 FROM torn t WHERE t.attempt = c.attempt AND t.rank = c.rank) GROUP BY ALL
),
limits AS (  -- a dump that lacks calls which its group completed was made at another moment
    SELECT b.attempt, b.pg, b.rank, max(b.last) AS last FROM bounds b LEFT JOIN done d USING (attempt, pg)
    WHERE NOT (b.dumped AND b.last < coalesce(d.seq, 0)) GROUP BY ALL
),
named AS (
    SELECT DISTINCT attempt, pg, rank, seq FROM (
        SELECT e.attempt, coalesce(e.pg, e.attrs->>'group', '0') AS pg, unnest(coalesce(CAST((e.attrs->'ranks') AS INTEGER[]), [e.peer_rank])) AS rank,
            coalesce(e.seq, TRY_CAST((e.attrs->>'at_seq') AS BIGINT)) AS seq
        FROM ev e WHERE e.kind = 'accused' AND coalesce(e.attrs->>'reliable', 'true') = 'true' AND coalesce(e.attrs->>'why', '') NOT IN ('ras_error', 'checkpoint', 'ras_status'))
    WHERE rank IS NOT NULL
),
absent AS (
    SELECT a.attempt, a.pg, a.seq, l.rank, 'absence' AS basis FROM awaited a JOIN limits l USING (attempt, pg) WHERE l.last < a.seq
    UNION ALL
    SELECT a.attempt, a.pg, min(a.seq), n.rank, 'accused' FROM awaited a JOIN named n ON n.attempt = a.attempt AND n.pg = a.pg AND (n.seq IS NULL OR n.seq = a.seq) GROUP BY ALL
    UNION ALL
    SELECT n.attempt, n.pg, n.seq, n.rank, 'accused' FROM named n
    WHERE n.seq IS NOT NULL AND NOT EXISTS (SELECT 1 FROM awaited a WHERE a.attempt = n.attempt AND a.pg = n.pg AND n.seq = a.seq)
),
never AS (
    SELECT n.attempt, n.pg, n.seq, n.rank, max(n.basis) AS basis FROM absent n
    WHERE NOT EXISTS (SELECT 1 FROM calls c WHERE c.attempt = n.attempt AND c.pg = n.pg AND c.rank = n.rank AND c.seq = n.seq)
        AND (EXISTS (SELECT 1 FROM process_groups g WHERE g.attempt = n.attempt AND g.pg = n.pg AND g.rank = n.rank)
            OR NOT EXISTS (SELECT 1 FROM process_groups g WHERE g.attempt = n.attempt AND g.pg = n.pg AND g.complete))
    GROUP BY n.attempt, n.pg, n.seq, n.rank
)
SELECT c.attempt, c.pg, c.seq, c.rank, c.op, c.numel_in, nullif(c.numel_out, ''), nullif(c.dtype, ''), c.enqueued_ts, c.started_ts, c.completed_ts,
    CASE WHEN o.rank IS NOT NULL THEN 'mismatched' ELSE ['enqueued', 'started', 'completed', 'timed_out'][c.reached] END AS state, c.timeout_ms,
    CASE WHEN c.dumped THEN 'dump' ELSE 'words' END AS basis, a.seq IS NOT NULL AS awaited
FROM calls c LEFT JOIN odd o USING (attempt, pg, seq, rank) LEFT JOIN awaited a USING (attempt, pg, seq)
UNION ALL
SELECT n.attempt, n.pg, n.seq, n.rank, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'never_arrived', NULL, n.basis, true FROM never n
ORDER BY ALL
