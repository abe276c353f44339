-- law: transport
-- stratum: derive
-- needs: timed_out_waiting, remote_error
-- claim: A path that never worked is configuration, not a rank: the first collective over GPU-to-GPU transfers never ends where access control redirects them; completion errors on several hosts before any step mean that the hosts never reached each other.
-- source: NVIDIA NCCL troubleshooting (PCI access control services); ibv_wc_status 12 (retry exceeded) at start-up is GID, route or firewall
WITH progress AS (SELECT attempt, count(*) AS n FROM steps GROUP BY attempt),
first_waits AS (
    SELECT f.attempt, max(f.seq) AS seq, count(DISTINCT f.subject) AS n, min(f.first_event_id) AS event_id FROM facts f
    WHERE f.predicate = 'timed_out_waiting' AND f.subject_kind = 'rank' AND f.seq IS NOT NULL GROUP BY f.attempt
),
redirected AS (SELECT 1 AS yes WHERE EXISTS (SELECT 1 FROM config WHERE key = 'nccl.transport' AND value = 'P2P') AND EXISTS (SELECT 1 FROM config WHERE key = 'pci.acs')
    AND NOT EXISTS (SELECT 1 FROM config WHERE key = 'nccl.p2p' AND value = 'disabled')),
errors AS (
    SELECT e.attempt, count(DISTINCT e.host) AS hosts, min(e.event_id) AS event_id, any_value(e.attrs->>'status') AS status, any_value(e.peer_host) AS peer
    FROM ev e WHERE e.kind = 'remote_error' AND (e.attrs->>'status') IN ('12', '13') GROUP BY e.attempt
)
SELECT w.attempt, 'p2p_stuck' AS predicate, 'job' AS subject_kind, 'job' AS subject, CAST(NULL AS VARCHAR) AS object_kind, CAST(NULL AS VARCHAR) AS object,
    CAST(NULL AS TIMESTAMPTZ) AS onset_low, CAST(NULL AS TIMESTAMPTZ) AS onset_high, CAST(NULL AS VARCHAR) AS pg, w.seq, CAST(NULL AS BIGINT) AS step, CAST(NULL AS VARCHAR) AS coverage,
    w.n AS events, w.event_id AS first_event_id, w.event_id AS last_event_id, json_object('acs', 'redirects') AS attrs
FROM first_waits w, redirected WHERE w.seq <= 3 AND NOT EXISTS (SELECT 1 FROM progress p WHERE p.attempt = w.attempt AND p.n > 0)
UNION ALL
SELECT x.attempt, 'net_unreachable', 'job', 'job', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, x.event_id, x.event_id, json_object('status', x.status, 'peer', x.peer, 'when', 'first collective')
FROM errors x WHERE x.hosts >= 2 AND NOT EXISTS (SELECT 1 FROM progress p WHERE p.attempt = x.attempt AND p.n > 0)
