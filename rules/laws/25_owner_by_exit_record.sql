-- law: owner-by-exit-record
-- stratum: derive
-- needs: raised, crashed, out_of_memory, host_memory, io_failed, worker_died, device_fault, device_assert, illegal_access, shm_exhausted, unused_parameters, misconfigured, nan_local
-- claim: Words that no prefix attributes belong to the one rank whose launcher saw it leave by itself, if there is exactly one such rank and one such fact kind.
-- source: torchelastic lists who left on its own (exit code > 0, or a hard signal) apart from those it stopped (-15)
WITH own_words AS (
    SELECT f.* FROM facts f JOIN predicates p USING (predicate)
    WHERE f.subject_kind = 'process' AND p.can_initiate = 'yes' AND p.certainty = 'words' AND f.status = 'active' AND coalesce(f.attrs->>'uncaught', 'true') = 'true'
),
left_alone AS (
    SELECT e.attempt, min(e.peer_rank) AS rank
    FROM ev e
    WHERE e.kind = 'exit_record' AND e.peer_rank IS NOT NULL AND coalesce(e.attrs->>'signal', '') NOT IN ('SIGTERM', 'SIGINT')
        AND NOT EXISTS (SELECT 1 FROM ev s WHERE s.kind = 'signalled' AND s.attempt = e.attempt AND (s.attrs->>'pid') = e.attrs->>'pid')
        AND NOT EXISTS (SELECT 1 FROM facts f JOIN predicates p USING (predicate) WHERE f.attempt = e.attempt AND f.subject_kind = 'rank'
            AND f.subject = CAST(e.peer_rank AS VARCHAR) AND p.certainty = 'words' AND p.ends_subject)
    GROUP BY e.attempt HAVING count(DISTINCT e.peer_rank) = 1
)
SELECT o.attempt, o.predicate, 'rank' AS subject_kind, CAST(l.rank AS VARCHAR) AS subject, o.object_kind, o.object, o.onset_low, o.onset_high,
    o.pg, o.seq, o.step, o.coverage, o.events, o.first_event_id, o.last_event_id, json_merge_patch(o.attrs, '{"owner": "exit record"}') AS attrs
FROM own_words o JOIN left_alone l USING (attempt)
