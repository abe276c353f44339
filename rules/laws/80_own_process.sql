-- law: own-process
-- stratum: explain
-- claim: What a process says after its own first fault or its own failed wait is the consequence of that, in the order of its own lines.
-- source: order inside one process needs no clock
WITH placed AS (
    SELECT f.fact_id, f.attempt, f.subject_kind, f.subject, f.predicate, p.can_initiate, p.ends_subject, p.certainty, e.source_id, e.line, e.ts, e.ts_origin, f.attrs
    FROM facts f JOIN predicates p USING (predicate) LEFT JOIN ev e ON e.event_id = f.first_event_id
    WHERE f.status = 'active' AND f.subject_kind IN ('rank', 'process')
)
SELECT DISTINCT a.attempt, a.fact_id AS cause, b.fact_id AS effect, 'structural' AS grade, 'process' AS basis, 'it follows in the same process' AS why
FROM placed a JOIN placed b ON a.attempt = b.attempt AND a.subject_kind = b.subject_kind AND a.subject = b.subject AND a.fact_id <> b.fact_id
WHERE a.ends_subject AND (
    -- an exit record is how it ended, its words are why
    (b.certainty = 'record' AND b.predicate IN ('died', 'exited', 'terminated') AND a.certainty = 'words'
        AND NOT (b.predicate = 'died' AND coalesce(b.attrs->>'signal', '') = 'SIGKILL' AND a.can_initiate = 'no'))
    OR (a.certainty = 'words' AND b.certainty = 'words' AND a.source_id = b.source_id AND a.line < b.line AND b.ends_subject)
    OR (a.certainty = 'words' AND b.certainty = 'words' AND a.source_id IS DISTINCT FROM b.source_id AND b.ends_subject
        AND a.ts_origin = 'own' AND b.ts_origin = 'own' AND a.ts < b.ts)
    OR (a.predicate IN ('device_fault', 'killed_by_kernel') AND b.predicate NOT IN ('device_fault', 'killed_by_kernel') AND b.ends_subject
        AND a.source_id IS DISTINCT FROM b.source_id)
    -- the absence of a rank explains nothing that it said before
)
