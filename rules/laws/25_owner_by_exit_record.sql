-- law: owner-by-exit-record
-- stratum: derive
-- needs: raised, crashed, out_of_memory, host_memory, io_failed, worker_died, device_fault, device_assert, illegal_access, shm_exhausted, unused_parameters, misconfigured, nan_local
-- claim: Words that no prefix attributes belong to the one rank whose launcher saw it leave by itself, if there is exactly one such rank, or one that left clearly before all others.
-- source: torchelastic lists who left on its own (exit code > 0, or a hard signal) apart from those it stopped (-15)
WITH own_words AS (
    SELECT f.* FROM facts f JOIN predicates p USING (predicate)
    WHERE f.subject_kind = 'process' AND p.can_initiate = 'yes' AND p.certainty = 'words' AND f.status = 'active' AND coalesce(f.attrs->>'uncaught', 'true') = 'true'
),
alone AS (
    SELECT e.attempt, e.peer_rank AS rank, min(TRY_STRPTIME(e.attrs->>'time', '%Y-%m-%d_%H:%M:%S')) AS left_at
    FROM ev e
    WHERE e.kind = 'exit_record' AND e.peer_rank IS NOT NULL AND coalesce(e.attrs->>'signal', '') NOT IN ('SIGTERM', 'SIGINT')
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
)
SELECT o.attempt, o.predicate, 'rank' AS subject_kind, CAST(l.rank AS VARCHAR) AS subject, o.object_kind, o.object, o.onset_low, o.onset_high,
    o.pg, o.seq, o.step, o.coverage, o.events, o.first_event_id, o.last_event_id, json_merge_patch(o.attrs, '{"owner": "exit record"}') AS attrs
FROM own_words o JOIN left_alone l USING (attempt)
