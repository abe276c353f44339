-- law: silent-rank
-- stratum: absence
-- needs: timed_out_waiting, lost_connection, lost_store, remote_error, accused, watchdog_stuck, store_wait
-- claim: Those who report a wait are victims; who did not arrive is found by elimination among the members of the groups that waited. Evidence in order of strength: named by a barrier or report; its last call in such a group is an earlier one; it stopped at an earlier step than the others; its stack stands outside communication; the only rank without a word although all others spoke. A rank whose log is missing or torn is never more than a suspect, and so is one whose flight recorder alone is missing. Of an initialisation that some members completed, those are suspects that did not.
-- source: monitoredBarrier (gloo), PG status lines, flight-recorder dumps, py-spy / faulthandler stacks; timeouts are printed by those who arrived (ProcessGroupNCCL.cpp, unbound_buffer.cc)
WITH attempts AS (  -- only where no rank's own words or exit record explain the end
    SELECT DISTINCT f.attempt FROM facts f JOIN predicates p USING (predicate)
    WHERE f.status = 'active' AND f.predicate IN ('timed_out_waiting', 'lost_connection', 'lost_store', 'remote_error', 'accused', 'watchdog_stuck')
        AND NOT EXISTS (SELECT 1 FROM facts c JOIN predicates q ON q.predicate = c.predicate
            WHERE c.attempt = f.attempt AND c.status = 'active' AND q.can_initiate <> 'no' AND c.predicate NOT IN ('nan_global', 'external_signal', 'device_fault')
                AND NOT (c.predicate = 'died' AND coalesce(c.attrs->>'signal', '') = 'SIGABRT') AND NOT (c.predicate = 'raised' AND coalesce(c.attrs->>'agent', '') = 'true')
                AND NOT (c.predicate = 'mismatch' AND c.subject_kind <> 'rank')
                AND NOT (c.subject_kind = 'process' AND coalesce(c.attrs->>'uncaught', '') = 'false'))  -- handled, and nobody knows where
),
victims AS (
    SELECT f.attempt, TRY_CAST(f.subject AS INTEGER) AS rank, bool_or(f.predicate = 'timed_out_waiting') AS timed_out,
        bool_or(f.predicate = 'timed_out_waiting' AND (f.attrs->>'direction') = 'send') AS send_wait,
        bool_or(f.predicate = 'timed_out_waiting' AND (f.attrs->>'direction') = 'recv') AS recv_wait,
        min(f.onset_high) AS first_word, bool_or(f.predicate = 'lost_connection') AS lost, max(f.seq) AS seq
    FROM facts f WHERE f.subject_kind = 'rank' AND f.status = 'active'
        AND f.predicate IN ('timed_out_waiting', 'lost_connection', 'lost_store', 'remote_error', 'watchdog_stuck') GROUP BY ALL
),
waiting AS (  -- the groups in which somebody waits; one whose members are not all known may hold anybody
    SELECT DISTINCT f.attempt, coalesce(f.pg, '0') AS pg FROM facts f
    WHERE f.predicate IN ('timed_out_waiting', 'watchdog_stuck') AND f.status = 'active' AND (f.attrs->>'why') IS DISTINCT FROM 'communicator init never completed'
),
eligible AS (
    SELECT w.attempt, CASE WHEN g.complete THEN g.rank END AS rank FROM waiting w LEFT JOIN process_groups g ON g.attempt = w.attempt AND g.pg = w.pg GROUP BY ALL
),
open_groups AS (SELECT DISTINCT attempt FROM eligible WHERE rank IS NULL),
narrowed AS (SELECT DISTINCT attempt FROM eligible WHERE attempt NOT IN (SELECT attempt FROM open_groups)),
init_only AS (  -- nothing but an initialisation that some completed: those wait for nobody
    SELECT attempt, TRY_CAST(subject AS INTEGER) AS rank FROM facts WHERE predicate = 'timed_out_waiting' AND status = 'active' AND (attrs->>'why') = 'communicator init never completed'
        AND attempt NOT IN (SELECT attempt FROM waiting)
),
dumps_only AS (  -- no log line tells of a wait, only flight recorders do
    SELECT attempt FROM facts WHERE predicate = 'timed_out_waiting' AND status = 'active' GROUP BY attempt HAVING bool_and(coalesce(attrs->>'dump', '') = 'true')
),
spoke_at AS (  -- when a rank printed its first complaint, only where the line itself carries the time
    SELECT e.attempt, e.rank, min(e.ts) AS at, any_value(e.host) AS host
    FROM ev e WHERE e.kind IN ('timed_out_waiting', 'lost_connection') AND e.ts_origin = 'own' AND e.rank IS NOT NULL GROUP BY ALL
),
unattributed AS (SELECT attempt, count(DISTINCT subject) AS n FROM facts WHERE subject_kind = 'process' AND status = 'active'
    AND predicate IN ('timed_out_waiting', 'lost_connection', 'lost_store', 'remote_error') GROUP BY attempt),
accusations AS (
    SELECT attempt, rank, count(DISTINCT by_whom) AS witnesses, min(event_id) AS event_id FROM (
        SELECT e.attempt, e.peer_rank AS rank, coalesce(e.rank, -1) AS by_whom, e.event_id FROM ev e
        WHERE e.kind = 'accused' AND e.peer_rank IS NOT NULL AND coalesce(e.attrs->>'reliable', 'true') = 'true'
        UNION ALL
        SELECT e.attempt, CAST(unnest(CAST((e.attrs->'ranks') AS INTEGER[])) AS INTEGER), coalesce(e.rank, -1), e.event_id FROM ev e
        WHERE e.kind = 'accused' AND (e.attrs->'ranks') IS NOT NULL AND coalesce(e.attrs->>'reliable', 'true') = 'true')
    GROUP BY attempt, rank
),
late AS (  -- members that are known not to have made a call that others of the group wait for; the call that fewest members lack decides
    SELECT c.attempt, c.rank, arg_min(c.pg, (c.basis <> 'absence', c.lacking, c.seq)) AS pg, arg_min(c.seq, (c.basis <> 'absence', c.lacking, c.seq)) AS seq,
        bool_or(c.basis = 'absence') AS behind
    FROM (SELECT *, count(*) OVER (PARTITION BY attempt, pg, seq) AS lacking FROM collectives WHERE state = 'never_arrived') c
    WHERE c.pg LIKE 'nccl:%' OR EXISTS (SELECT 1 FROM waiting w WHERE w.attempt = c.attempt AND w.pg = c.pg) GROUP BY c.attempt, c.rank
),
status AS (SELECT attempt, rank, min(event_id) AS event_id FROM ev WHERE kind IN ('pg_status', 'fr_dump') AND rank IS NOT NULL GROUP BY ALL),
recorded AS (SELECT attempt, rank FROM ev WHERE kind = 'fr_dump' AND rank IS NOT NULL GROUP BY ALL),
stacks AS (
    SELECT e.attempt, e.rank, bool_and(NOT regexp_matches(coalesce(e.attrs->>'frames', '') || coalesce(e.attrs->>'top', ''),
        'distributed_c10d|all_reduce|allreduce|all_gather|reduce_scatter|broadcast|barrier|_engine_run_backward|synchronize|c10d')) AS outside, min(e.event_id) AS event_id,
        arg_min(e.attrs->>'top', e.event_id) AS top
    FROM ev e WHERE e.kind = 'stack' AND e.rank IS NOT NULL GROUP BY ALL
),
frontier AS (SELECT attempt, max(last_step) AS top, count(last_step) AS printing FROM ranks GROUP BY attempt),
lone_stack AS (SELECT attempt, count(*) FILTER (WHERE outside) AS n, count(*) AS all_ FROM stacks GROUP BY attempt),
activity AS (
    SELECT attempt, rank, arg_max(attrs->>'activity', event_id) AS what, max(event_id) AS event_id FROM ev WHERE kind = 'activity' AND rank IS NOT NULL GROUP BY ALL
),
last_spoken AS (  -- the last to complain, well after all others, and not of a timeout: it came late to a broken group
    SELECT s.attempt, arg_max(s.rank, s.at) AS rank, max(s.at) AS at, (list(s.at ORDER BY s.at DESC))[2] AS before, count(*) AS n FROM spoke_at s GROUP BY s.attempt
),
board AS (
    SELECT r.attempt, r.rank, r.state, r.coverage, r.host, r.last_step, r.last_ts, v.rank IS NOT NULL AS spoke, coalesce(v.timed_out, false) AS timed_out,
        coalesce(a.witnesses, 0) AS witnesses, a.event_id AS accused_by,
        coalesce(e.behind, false) AS behind_seq, e.pg, e.seq, s.event_id AS status_event, i.rank IS NOT NULL AS in_init, x.attempt IS NOT NULL AS init_stuck,
        y.attempt IS NOT NULL AS dumps_only, z.rank IS NOT NULL AS recorded,
        r.last_step IS NOT NULL AND f.printing > 1 AND r.last_step < f.top AS behind_step, f.top - r.last_step AS steps_behind,
        coalesce(k.outside, false) AND coalesce(ls.n, 0) = 1 AND ls.all_ > 1 AS stack_outside, k.event_id AS stack_event, k.top AS stack_top,
        t.what AS activity, t.event_id AS activity_event,
        coalesce(l.rank = r.rank AND l.n >= 2 AND l.at > l.before + INTERVAL 3 SECONDS AND NOT coalesce(v.timed_out, false), false) AS late_speaker,
        -- gloo's ring all-reduce receives from rank + 1 and sends to rank - 1 (weak)
        NOT coalesce(v.timed_out, false) AND coalesce(nxt.send_wait, false) AND NOT coalesce(nxt.recv_wait, false)
            AND coalesce(prv.recv_wait, false) AND NOT coalesce(prv.send_wait, false) AS ring,
        count(*) OVER per AS world, count(*) FILTER (WHERE v.rank IS NOT NULL) OVER per AS speakers,
        count(*) FILTER (WHERE v.rank IS NULL AND r.state NOT IN ('completed')) OVER per AS quiet,
        bool_or(coalesce(v.timed_out, false)) OVER per AS any_timeout, coalesce(u.n, 0) AS unattributed
    FROM ranks r
    JOIN attempts USING (attempt)
    LEFT JOIN victims v USING (attempt, rank)
    LEFT JOIN accusations a USING (attempt, rank)
    LEFT JOIN status s USING (attempt, rank)
    LEFT JOIN late e USING (attempt, rank)
    LEFT JOIN init_only i USING (attempt, rank)
    LEFT JOIN (SELECT DISTINCT attempt FROM init_only) x USING (attempt)
    LEFT JOIN dumps_only y USING (attempt)
    LEFT JOIN recorded z USING (attempt, rank)
    LEFT JOIN stacks k USING (attempt, rank)
    LEFT JOIN lone_stack ls USING (attempt)
    LEFT JOIN frontier f USING (attempt)
    LEFT JOIN activity t USING (attempt, rank)
    LEFT JOIN last_spoken l USING (attempt)
    LEFT JOIN unattributed u USING (attempt)
    LEFT JOIN victims nxt ON nxt.attempt = r.attempt AND nxt.rank = (r.rank + 1) % (SELECT max(x.rank) + 1 FROM ranks x WHERE x.attempt = r.attempt)
    LEFT JOIN victims prv ON prv.attempt = r.attempt AND prv.rank = (r.rank + (SELECT max(x.rank) FROM ranks x WHERE x.attempt = r.attempt)) % (SELECT max(x.rank) + 1 FROM ranks x WHERE x.attempt = r.attempt)
    WHERE r.attempt NOT IN (SELECT attempt FROM narrowed) OR (r.attempt, r.rank) IN (SELECT (attempt, rank) FROM eligible)
    WINDOW per AS (PARTITION BY r.attempt)
),
graded AS (
    SELECT *,
        CASE
            WHEN init_stuck THEN CASE WHEN in_init THEN 9 END
            WHEN witnesses > 0 AND NOT timed_out THEN 1
            WHEN behind_seq AND NOT timed_out THEN 2
            WHEN stack_outside AND NOT timed_out THEN 3
            WHEN NOT spoke AND quiet = 1 AND state <> 'completed' AND NOT dumps_only THEN 4
            WHEN behind_step AND NOT timed_out AND steps_behind >= 1 THEN 5
            WHEN late_speaker THEN 6
            WHEN ring AND NOT spoke THEN 7
            WHEN ring AND quiet = 0 THEN 8
            WHEN NOT spoke AND state <> 'completed' THEN 9
        END AS tier
    FROM board WHERE world > 1
),
best AS (SELECT attempt, min(tier) AS tier FROM graded GROUP BY attempt)
SELECT g.attempt,
    CASE WHEN g.activity IS NOT NULL AND g.any_timeout THEN 'busy' WHEN g.any_timeout OR g.tier <= 3 THEN 'stalled' ELSE 'vanished' END AS predicate,
    'rank' AS subject_kind, CAST(g.rank AS VARCHAR) AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    g.last_ts AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, CASE WHEN g.tier <= 2 THEN g.pg END AS pg, CASE WHEN g.tier <= 2 THEN g.seq END AS seq, g.last_step AS step,
    g.coverage, 1 AS events, coalesce(g.accused_by, g.status_event, g.stack_event, g.activity_event) AS first_event_id,
    coalesce(g.accused_by, g.status_event, g.stack_event, g.activity_event) AS last_event_id,
    json_object('tier', g.tier, 'candidates', count(*) OVER (PARTITION BY g.attempt), 'speakers', g.speakers, 'world', g.world, 'quiet', g.quiet,
        'unattributed', g.unattributed, 'activity', g.activity, 'stack', g.stack_top, 'steps_behind', g.steps_behind, 'witnesses', g.witnesses, 'state', g.state, 'recorded', g.recorded) AS attrs
FROM graded g JOIN best b ON b.attempt = g.attempt AND g.tier = b.tier
WHERE NOT EXISTS (SELECT 1 FROM facts h WHERE h.attempt = g.attempt AND h.predicate IN ('host_gone', 'never_joined') AND h.status = 'active')
