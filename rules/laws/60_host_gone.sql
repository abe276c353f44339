-- law: host-gone
-- stratum: absence
-- needs: several hosts
-- claim: When every rank of one host stops without a word and without an exit record while ranks of other hosts lose their connections, the host went, not a rank. A fault that some other rank handled does not speak against it where a peer names an address of the silent host.
-- source: killing a node leaves neither error.json nor an agent's report (torchelastic FINDINGS); its peers see resets
WITH hosts AS (
    SELECT attempt, host, count(*) AS ranks, count(*) FILTER (WHERE state IN ('silent', 'no_log') AND exit_code IS NULL AND signal IS NULL) AS quiet,
        count(*) FILTER (WHERE state = 'waiting' OR signal = 'SIGABRT') AS speaking, list(rank ORDER BY rank) AS members, max(last_ts) AS last_ts, max(last_step) AS last_step,
        bool_or(coverage = 'absent') AS unseen
    FROM ranks WHERE host IS NOT NULL GROUP BY attempt, host
),
agents AS (  -- a launcher on that host that lived on and reported
    SELECT DISTINCT attempt, host FROM ev WHERE kind IN ('exit_record', 'signalled', 'external_signal') AND host IS NOT NULL
),
lost_hosts AS (  -- hosts that peers lost, by name or by an address that the host's own processes printed
    SELECT DISTINCT e.attempt, coalesce(a.attrs->>'host', e.peer_host) AS host
    FROM ev e LEFT JOIN ev a ON a.attempt = e.attempt AND a.kind = 'mapping' AND (a.attrs->>'ip') = e.peer_host AND (a.attrs->>'host') IS NOT NULL
    WHERE e.kind IN ('lost_connection', 'remote_error') AND e.peer_host IS NOT NULL
),
words AS (
    SELECT f.attempt, bool_and((f.attrs->>'uncaught') = 'false') AS handled FROM facts f JOIN predicates p USING (predicate)
    WHERE f.status = 'active' AND p.can_initiate = 'yes' AND p.certainty <> 'absence' AND f.subject_kind = 'rank'
        AND NOT (f.predicate = 'died' AND coalesce(f.attrs->>'signal', '') = 'SIGABRT')  -- what a watchdog makes of a waiting process
    GROUP BY f.attempt
)
SELECT h.attempt, 'host_gone' AS predicate, 'host' AS subject_kind, h.host AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    h.last_ts AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, CAST(NULL AS VARCHAR) AS pg, CAST(NULL AS BIGINT) AS seq, h.last_step AS step,
    'open' AS coverage, 1 AS events, CAST(NULL AS BIGINT) AS first_event_id, CAST(NULL AS BIGINT) AS last_event_id,
    json_object('ranks', h.members) AS attrs
FROM hosts h
WHERE h.quiet = h.ranks AND h.ranks >= 2 AND NOT h.unseen
    AND (SELECT count(*) FROM hosts o WHERE o.attempt = h.attempt) >= 2
    AND NOT EXISTS (SELECT 1 FROM agents a WHERE a.attempt = h.attempt AND a.host = h.host)
    AND NOT EXISTS (SELECT 1 FROM words w WHERE w.attempt = h.attempt
        AND NOT (coalesce(w.handled, false) AND EXISTS (SELECT 1 FROM lost_hosts l WHERE l.attempt = h.attempt AND l.host = h.host)))
    AND EXISTS (SELECT 1 FROM hosts o WHERE o.attempt = h.attempt AND o.host <> h.host AND o.speaking > 0)
