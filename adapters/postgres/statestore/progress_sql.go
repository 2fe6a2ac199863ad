package statestore

// progressAuthor pauses routes whose row says so. A pause of its own with the reason [adapters.ProgressFailed] is a failure.
const progressAuthor = "progress table"

// ownStatus is the status that follows from the pauses and the parked messages of a route.
const ownStatus = `coalesce(
        (SELECT CASE WHEN u.by = '` + progressAuthor + `' AND u.reason = 'FAILED' THEN 'FAILED' ELSE 'PAUSED' END FROM outrider_pause u
         WHERE u.route = {route} AND md5(u.address) = md5('') AND u.address = ''),
        CASE WHEN EXISTS (SELECT FROM outrider_parked h WHERE h.route = {route} AND h.status = 'held') THEN 'FAILED' ELSE 'ACTIVE' END)`

// writeProgressSQL writes the rows of routes from what the transaction has written of their cursors and parked messages, and
// returns the routes. It leaves out rows that others have changed, and those that are locked: a settle must
// not wait for a session that has forgotten to commit. Up to a cursor everything is delivered that was visible, but
// what is parked; while a window of late rows is open, up to the last one of it that was taken.
const writeProgressSQL = `
WITH mine AS MATERIALIZED (
    SELECT o.route, o.position AS wrote, o.status AS agreed, p.topic, p.publisher, p.status
    FROM outrider_progress o JOIN {table} p ON p.topic = o.topic AND p.publisher = o.publisher
    WHERE o.route = ANY ($1::text[]) AND p.last_position = o.position
    ORDER BY o.route
    FOR UPDATE OF o, p SKIP LOCKED
), truth AS MATERIALIZED (
    SELECT m.*, ` + ownStatus + ` AS own, l.ours, f.attempts, f.last_error,
        CASE WHEN l.placed = 16 THEN greatest(least(l.position, k.position - 1), 0) ELSE m.wrote END AS position
    FROM mine m
    CROSS JOIN LATERAL (
        SELECT min(CASE WHEN c.window_snapshot <> '' THEN least(c.paged, c.position) ELSE c.position END) AS position,
            count(c.updated_at) AS placed, coalesce(bool_and(c.owner = $3), false) AS ours
        FROM {cursors} c WHERE c.route = m.route
    ) l
    CROSS JOIN LATERAL (
        SELECT min(k.position) AS position FROM outrider_parked k WHERE k.route = m.route AND k.status <> 'dead'
    ) k
    LEFT JOIN LATERAL (
        SELECT k.attempts, k.last_error FROM outrider_parked k
        WHERE k.route = m.route AND k.status IN ('retrying', 'held') ORDER BY k.seq LIMIT 1
    ) f ON true
), written AS (
    UPDATE {table} p
    SET last_position = t.position, updated_at = clock_timestamp(),
        last_published_at = CASE WHEN t.route = ANY ($2::text[]) THEN clock_timestamp() ELSE p.last_published_at END,
        error_count = CASE WHEN t.attempts IS NULL AND t.own = 'FAILED' THEN p.error_count ELSE coalesce(t.attempts, 0) END,
        last_error = CASE WHEN t.attempts IS NULL AND t.own = 'FAILED' THEN p.last_error ELSE t.last_error END,
        status = CASE WHEN t.status = t.agreed THEN t.own ELSE p.status END,
        leader_instance = CASE WHEN t.ours THEN left($3, 255) ELSE p.leader_instance END,
        leader_since = CASE WHEN t.ours AND p.leader_instance IS DISTINCT FROM left($3, 255) THEN clock_timestamp() ELSE p.leader_since END,
        leader_heartbeat = CASE WHEN t.ours THEN clock_timestamp() ELSE p.leader_heartbeat END
    FROM truth t WHERE p.topic = t.topic AND p.publisher = t.publisher
)
UPDATE outrider_progress o
SET position = t.position, status = CASE WHEN t.status = t.agreed THEN t.own ELSE o.status END
FROM truth t WHERE o.route = t.route
RETURNING o.route`

// readProgressSQL reads the rows of a table, with what is known of their routes; one that does not exist has no status.
const readProgressSQL = `
SELECT r.route, r.topic, r.publisher, coalesce(p.status, ''), coalesce(p.last_position, 0), p.last_published_at, coalesce(p.error_count, 0),
    coalesce(p.last_error, ''), p.updated_at, coalesce(p.leader_instance, ''), p.leader_since, p.leader_heartbeat,
    coalesce(o.position, -1), coalesce(o.status, 'ACTIVE'), ` + ownStatus + `, coalesce(c.placed, false), coalesce(c.owner, '')
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS r(route, topic, publisher, n)
LEFT JOIN {table} p ON p.topic = r.topic AND p.publisher = r.publisher
LEFT JOIN outrider_progress o ON o.route = r.route AND o.topic = r.topic AND o.publisher = r.publisher AND o.progress_table = $4
LEFT JOIN LATERAL (
    SELECT bool_or(c.updated_at IS NOT NULL) AS placed, min(c.owner) AS owner FROM outrider_cursor c WHERE c.route = r.route
) c ON true`

// followProgressSQL reads the rows of which something is to be carried out or written. Rows are compared before anything else is looked up: mostly
// there is nothing to do, twice a second.
const followProgressSQL = readProgressSQL + `
WHERE p.topic IS NULL OR p.last_position IS DISTINCT FROM o.position OR p.status IS DISTINCT FROM o.status OR p.status <> ` + ownStatus

const (
	registerProgressSQL = `
INSERT INTO {table} (topic, publisher, last_position, status, error_count)
SELECT r.topic, r.publisher, 0, 'ACTIVE', 0 FROM unnest($1::text[], $2::text[]) AS r(topic, publisher)
WHERE NOT EXISTS (SELECT FROM {table} p WHERE p.topic = r.topic AND p.publisher = r.publisher)
ON CONFLICT DO NOTHING`

	// agreePositionsSQL notes positions ($5) that rows still have.
	agreePositionsSQL = `
INSERT INTO outrider_progress AS o (route, progress_table, topic, publisher, position, status)
SELECT a.route, $1, a.topic, a.publisher, a.position, 'ACTIVE'
FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[]) AS a(route, topic, publisher, position)
JOIN {table} p ON p.topic = a.topic AND p.publisher = a.publisher AND p.last_position = a.position
ORDER BY a.route
ON CONFLICT (route) DO UPDATE
SET progress_table = EXCLUDED.progress_table, topic = EXCLUDED.topic, publisher = EXCLUDED.publisher, position = EXCLUDED.position,
    status = CASE WHEN ` + sameRow + ` THEN o.status ELSE 'ACTIVE' END`

	// agreeStatusSQL notes a status ($5) that the row still has.
	agreeStatusSQL = `
INSERT INTO outrider_progress AS o (route, progress_table, topic, publisher, position, status)
SELECT $2, $1, p.topic, p.publisher, -1, $5
FROM {table} p
WHERE p.topic = $3 AND p.publisher = $4 AND p.status = $5
ON CONFLICT (route) DO UPDATE
SET progress_table = EXCLUDED.progress_table, topic = EXCLUDED.topic, publisher = EXCLUDED.publisher,
    position = CASE WHEN ` + sameRow + ` THEN o.position ELSE -1 END, status = EXCLUDED.status`

	// resetProgressSQL makes a row begin again. It must not wait for an application while rows of ours are locked.
	resetProgressSQL = `
UPDATE {table} p SET last_position = 0, status = 'ACTIVE', error_count = 0, last_error = NULL, updated_at = clock_timestamp()
FROM (SELECT l.topic, l.publisher FROM {table} l WHERE l.topic = $1 AND l.publisher = $2 FOR UPDATE NOWAIT) l
WHERE p.topic = l.topic AND p.publisher = l.publisher`

	// sameRow reports whether what is known of a route is of the row that it has now.
	sameRow = `(o.progress_table, o.topic, o.publisher) = (EXCLUDED.progress_table, EXCLUDED.topic, EXCLUDED.publisher)`

	// unparkAllSQL removes what a move makes meaningless.
	unparkAllSQL = `DELETE FROM outrider_parked WHERE route = $1 AND status <> 'dead'`

	ownedRoutesSQL = `SELECT DISTINCT c.route FROM outrider_cursor c WHERE c.owner = $1 AND c.route = ANY ($2::text[])`
)
