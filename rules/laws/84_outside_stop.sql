-- law: outside-stop
-- stratum: explain
-- needs: external_signal, preempted
-- claim: After a stop from outside every process of that launcher is stopped; what they print then is its consequence.
-- source: torchelastic: "Received 15 death signal, shutting down workers"; slurmstepd CANCELLED ... DUE TO PREEMPTION
-- a job that stood still long before is not stopped by the signal: the wait explains the stop
SELECT j.attempt, j.fact_id AS cause, s.fact_id AS effect, 'strong' AS grade, 'clock' AS basis, 'it stood still long before it was stopped' AS why
FROM facts j JOIN facts s USING (attempt)
WHERE j.status = 'active' AND s.status = 'active' AND j.subject_kind = 'job' AND j.predicate = 'timed_out_waiting' AND s.predicate = 'external_signal'
UNION ALL
SELECT s.attempt, s.fact_id AS cause, f.fact_id AS effect, 'structural' AS grade, 'process' AS basis, 'its launcher was told to stop' AS why
FROM facts s JOIN facts f ON f.attempt = s.attempt AND f.fact_id <> s.fact_id
JOIN predicates p ON p.predicate = f.predicate
WHERE s.status = 'active' AND f.status = 'active' AND s.predicate IN ('external_signal', 'preempted')
    AND (p.ends_subject OR f.predicate IN ('device_fault', 'vanished', 'stalled'))
    AND f.predicate NOT IN ('preempted')
    AND NOT EXISTS (SELECT 1 FROM facts j WHERE j.attempt = s.attempt AND j.status = 'active' AND j.subject_kind = 'job' AND j.predicate = 'timed_out_waiting')
    -- words that a process spoke before the stop are not its consequence
    AND NOT (p.certainty = 'words' AND p.can_initiate <> 'no' AND f.onset_high IS NOT NULL AND s.onset_low IS NOT NULL AND f.onset_high < s.onset_low AND f.predicate NOT IN ('external_signal'))
    -- a plain cancel sends SIGTERM: no process answers it with an exception of its own (nor is it known who cancelled)
    AND NOT (coalesce(s.attrs->>'reason', '') = 'cancelled' AND f.subject_kind = 'rank' AND p.can_initiate = 'yes' AND p.certainty = 'words'
        AND coalesce(f.attrs->>'uncaught', '') = 'true' AND f.onset_high IS NULL)
    AND NOT (f.predicate = 'external_signal' AND (s.predicate = 'external_signal'))
    -- a node that the scheduler saw fail before it requeued the job did not fail of the requeue
    AND NOT (f.predicate = 'host_gone' AND EXISTS (SELECT 1 FROM ev a JOIN ev b ON a.source_id = b.source_id AND a.source = b.source AND a.line < b.line
        WHERE a.event_id = f.first_event_id AND b.event_id = s.first_event_id))
    AND NOT (p.certainty = 'words' AND p.can_initiate = 'yes' AND f.subject_kind = 'rank' AND f.onset_high IS NULL AND f.predicate NOT IN ('device_fault', 'link_down')
        AND s.predicate = 'external_signal' AND s.subject_kind = 'agent'
        AND EXISTS (SELECT 1 FROM ev x WHERE x.attempt = f.attempt AND x.kind = 'exit_record' AND (x.attrs->>'root_cause') = 'true'))
