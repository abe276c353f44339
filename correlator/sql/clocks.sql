-- Question: how far does each host's clock stand from the others?
-- Inputs:   step_rows, streams. Every rank of a synchronous job passes the same step together, so the median
--           difference over the steps that two hosts share is the difference of their clocks (zone included).
--           Never host x host: each host is compared with the middle host of the same step.
-- Output:   host, offset_ms (to subtract), low_ms, high_ms (middle 90 % of the differences), barriers
WITH per_host AS (
    SELECT s.attempt, s.host, p.step, median(epoch_us(p.ts_utc)) AS t
    FROM step_rows p JOIN streams s USING (stream_id)
    WHERE p.ts_utc IS NOT NULL AND s.host IS NOT NULL
    GROUP BY s.attempt, s.host, p.step
),
middle AS (
    SELECT attempt, step, quantile_disc(t, 0.5) AS t0
    FROM per_host GROUP BY attempt, step HAVING count(*) > 1
),
differences AS (
    SELECT h.host, (h.t - m.t0) / 1000.0 AS d
    FROM per_host h JOIN middle m USING (attempt, step)
)
SELECT host, median(d) AS offset_ms, quantile_cont(d, 0.05) AS low_ms, quantile_cont(d, 0.95) AS high_ms,
    CAST(count(*) AS INTEGER) AS barriers
FROM differences GROUP BY host ORDER BY host
