-- law: mismatch-vote
-- stratum: derive
-- needs: mismatch, timed_out_waiting, fr_dump
-- claim: Ranks that entered one numbered collective with other operands than the majority are the odd ones; with no majority nobody is named. A rank's word about itself outweighs what others say of it.
-- source: CollectiveFingerPrint (ProcessGroupWrapper.cpp); NumelIn / OpType of WorkNCCL lines; flight-recorder entries; NCCL's own call lines; the first rank in the text is only the checker
WITH quoted AS (
    SELECT attempt, coalesce(pg, '0') AS pg, seq, rank, min(event_id) AS event_id FROM ev
    WHERE kind IN ('timed_out_waiting', 'enqueued') AND seq IS NOT NULL AND rank IS NOT NULL GROUP BY ALL
),
against_zero AS (  -- checks that compare with rank 0 and are silent where a rank agrees with it
    SELECT e.attempt, any_value(e.attrs->>'other') AS what, any_value(e.attrs->>'why') AS why, min(e.event_id) AS event_id
    FROM ev e WHERE e.kind = 'mismatch' AND (e.attrs->>'why') IN ('ddp_params', 'zero3_disagreement') GROUP BY e.attempt
),
claims AS (
    SELECT e.attempt, '' AS pg, CAST(NULL AS BIGINT) AS seq, TRY_CAST((e.attrs->>'self_rank') AS INTEGER) AS rank, (e.attrs->>'self') AS what, 2 AS weight, e.event_id,
        (e.attrs->>'why') AS why
    FROM ev e WHERE e.kind = 'mismatch' AND (e.attrs->>'self') IS NOT NULL
    UNION ALL
    SELECT e.attempt, '', NULL, TRY_CAST((e.attrs->>'other_rank') AS INTEGER), (e.attrs->>'other'), 1, e.event_id, (e.attrs->>'why')
    FROM ev e WHERE e.kind = 'mismatch' AND (e.attrs->>'other') IS NOT NULL
    UNION ALL
    SELECT r.attempt, '', NULL, r.rank, z.what, 1, z.event_id, z.why FROM ranks r JOIN against_zero z USING (attempt)
    UNION ALL
    -- numbered calls of groups that stood still: what the calls did before was settled among the members
    SELECT c.attempt, c.pg, c.seq, c.rank, concat_ws(' ', c.op, c.numel_in, c.numel_out, c.dtype), 2, q.event_id, c.basis
    FROM (SELECT attempt, pg, seq, rank, op, basis,
            CASE WHEN op NOT IN ('ALLTOALL', 'ALLTOALL_BASE', 'GATHER', 'SCATTER') THEN numel_in END AS numel_in,
            CASE WHEN op NOT IN ('ALLTOALL', 'ALLTOALL_BASE', 'GATHER', 'SCATTER') THEN numel_out END AS numel_out,
            CASE WHEN bool_and(dtype IS NOT NULL) OVER (PARTITION BY attempt, pg, seq) THEN dtype END AS dtype
        FROM collectives WHERE seq IS NOT NULL AND numel_in IS NOT NULL AND op NOT IN ('SEND', 'RECV', 'COALESCED')) c
    JOIN (SELECT attempt, pg, max(seq) AS seq FROM collectives WHERE awaited GROUP BY attempt, pg) w ON w.attempt = c.attempt AND w.pg = c.pg AND c.seq <= w.seq
    JOIN quoted q ON q.attempt = c.attempt AND q.pg = c.pg AND q.seq = c.seq AND q.rank = c.rank
),
of_rank AS (
    SELECT attempt, pg, seq, rank, arg_max(what, weight) AS what, arg_max(event_id, weight) AS event_id, arg_max(why, weight) AS why
    FROM claims WHERE rank IS NOT NULL GROUP BY attempt, pg, seq, rank
),
votes AS (SELECT attempt, pg, seq, what, count(*) AS n, min(event_id) AS event_id, any_value(why) AS why FROM of_rank GROUP BY attempt, pg, seq, what),
polls AS (SELECT attempt, pg, seq, max(n) AS most, sum(n) AS voters, count(*) AS opinions, min(event_id) AS event_id, any_value(why) AS why FROM votes GROUP BY attempt, pg, seq),
-- one poll an attempt: numbers of different groups cannot be compared, so statements about ranks come first, then the group with the most voters
first_poll AS (SELECT * FROM polls WHERE opinions > 1 QUALIFY row_number() OVER (PARTITION BY attempt ORDER BY seq IS NOT NULL, CASE WHEN seq IS NOT NULL THEN -voters END, pg, seq) = 1)
SELECT o.attempt, 'mismatch' AS predicate, 'rank' AS subject_kind, CAST(o.rank AS VARCHAR) AS subject, 'group' AS object_kind, 'vote' AS object,
    CAST(NULL AS TIMESTAMPTZ) AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, nullif(o.pg, '') AS pg, o.seq, CAST(NULL AS BIGINT) AS step,
    CAST(NULL AS VARCHAR) AS coverage, 1 AS events, o.event_id AS first_event_id, o.event_id AS last_event_id,
    json_object('vote', 'odd', 'why', o.why, 'basis', CASE WHEN o.seq IS NULL THEN 'words' ELSE 'watchdog' END, 'mine', o.what, 'for', v.n, 'against', p.most, 'voters', p.voters) AS attrs
FROM of_rank o JOIN votes v ON v.attempt = o.attempt AND v.pg = o.pg AND v.seq IS NOT DISTINCT FROM o.seq AND v.what = o.what
JOIN first_poll p ON p.attempt = o.attempt AND p.pg = o.pg AND p.seq IS NOT DISTINCT FROM o.seq
WHERE v.n < p.most AND p.most * 2 > p.voters
UNION ALL
SELECT p.attempt, 'mismatch', 'group', coalesce(nullif(p.pg, ''), '0'), NULL, 'vote', NULL, NULL, nullif(p.pg, ''), p.seq, NULL, NULL, 1, p.event_id, p.event_id,
    json_object('vote', 'no majority', 'why', p.why, 'basis', CASE WHEN p.seq IS NULL THEN 'words' ELSE 'watchdog' END, 'voters', p.voters)
FROM first_poll p WHERE p.most * 2 <= p.voters
UNION ALL
-- statements in numbers of a group that is not known: that two sides differ is all they say
SELECT e.attempt, 'mismatch', 'group', coalesce(any_value(e.pg), '0'), NULL, 'vote', NULL, NULL, any_value(e.pg), NULL, NULL, NULL, count(*), min(e.event_id), max(e.event_id),
    json_object('vote', 'ranks of an unknown group', 'why', any_value(e.attrs->>'why'), 'basis', 'words', 'voters', count(DISTINCT e.rank))
FROM ev e WHERE e.kind = 'mismatch' AND (e.attrs->>'self') IS NOT NULL AND NOT EXISTS (SELECT 1 FROM first_poll p WHERE p.attempt = e.attempt)
GROUP BY e.attempt HAVING bool_and((e.attrs->>'self_rank') IS NULL)
