-- law: owner-by-exit-record
-- stratum: derive
-- needs: raised, crashed, out_of_memory, host_memory, io_failed, worker_died, device_fault, device_assert, illegal_access, shm_exhausted, unused_parameters, misconfigured, nan_local
-- claim: Words that no prefix attributes belong to the one rank whose launcher saw it leave by itself, if there is exactly one such rank, or one that left clearly before all others. Words that the launcher's report quotes for a rank are that rank's. A Python exception ends its process with an exit code, not with a signal.
-- source: torchelastic lists who left on its own (exit code > 0, or a hard signal) apart from those it stopped (-15)
WITH own_words AS (
    SELECT f.* FROM facts f JOIN predicates p USING (predicate)
    WHERE f.subject_kind = 'process' AND p.can_initiate = 'yes' AND p.certainty = 'words' AND f.status = 'active' AND coalesce(f.attrs->>'uncaught', 'true') = 'true'
),
alone AS (
    SELECT e.attempt, e.peer_rank AS rank, min(TRY_STRPTIME(e.attrs->>'time', '%Y-%m-%d_%H:%M:%S')) AS left_at
    FROM ev e
    WHERE e.kind = 'exit_record' AND e.peer_rank IS NOT NULL AND coalesce(e.attrs->>'signal', '') NOT IN ('SIGTERM', 'SIGINT')
        AND NOT EXISTS (SELECT 1 FROM own_words o WHERE o.attempt = e.attempt AND o.predicate = 'raised' AND (e.attrs->>'signal') IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM ev s WHERE s.kind = 'signalled' AND s.attempt = e.attempt AND (s.attrs->>'pid') = (e.attrs->>'pid'))
        AND NOT EXISTS (SELECT 1 FROM facts f JOIN predicates p USING (predicate) WHERE f.attempt = e.attempt AND f.subject_kind = 'rank'
            AND f.subject = CAST(e.peer_rank AS VARCHAR) AND p.certainty = 'words' AND p.ends_subject)
    GROUP BY e.attempt, e.peer_rank
),
ordered AS (
    SELECT attempt, rank, left_at, count(*) OVER (PARTITION BY attempt) AS n, row_number() OVER (PARTITION BY attempt ORDER BY left_at NULLS LAST, rank) AS place,
        lead(left_at) OVER (PARTITION BY attempt ORDER BY left_at NULLS LAST, rank) AS next_at
    FROM alone
),
left_alone AS (  -- the only one, or one whose launcher noticed it well before all others (whole seconds, other hosts)
    SELECT attempt, rank FROM ordered WHERE place = 1 AND (n = 1 OR next_at > left_at + INTERVAL 5 SECONDS)
),
quoted AS (  -- the only rank for which a report repeats the same words
    SELECT o.fact_id, min(TRY_CAST(q.subject AS INTEGER)) AS rank FROM own_words o JOIN facts q ON q.attempt = o.attempt AND q.predicate = o.predicate
        AND q.object = o.object AND (q.attrs->>'text') = (o.attrs->>'text') AND q.subject_kind = 'rank' AND (q.attrs->>'second_hand') = 'true' AND q.status = 'active'
    GROUP BY o.fact_id HAVING count(DISTINCT q.subject) = 1
),
owners AS (
    SELECT o.fact_id, coalesce(q.rank, l.rank) AS rank FROM own_words o LEFT JOIN quoted q USING (fact_id) LEFT JOIN left_alone l ON l.attempt = o.attempt
)
SELECT o.attempt, o.predicate, 'rank' AS subject_kind, CAST(w.rank AS VARCHAR) AS subject, o.object_kind, o.object, o.onset_low, o.onset_high,
    o.pg, o.seq, o.step, o.coverage, o.events, o.first_event_id, o.last_event_id, json_merge_patch(o.attrs, '{"owner": "exit record"}') AS attrs
FROM own_words o JOIN owners w USING (fact_id) WHERE w.rank IS NOT NULL
