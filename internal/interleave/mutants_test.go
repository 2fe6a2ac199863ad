package interleave_test

import "slices"

// alsoBy is one of the mutants, to be killed by another scenario.
func alsoBy(of []*mutant, name, by string) *mutant {
	m := of[slices.IndexFunc(of, func(m *mutant) bool { return m.name == name })]
	return &mutant{name: name, by: by, find: m.find, replace: m.replace, within: m.within}
}

// logMutants are changes of the statements of a log table and its state store.
var logMutants = []*mutant{
	{name: "settle: any epoch", by: "the fence", find: "AND c.epoch = s.epoch AND c.revision >= s.confirmed\nRETURNING c.route, c.slot, c.ctid", replace: "AND c.revision >= s.confirmed\nRETURNING c.route, c.slot, c.ctid"},
	{name: "settle: any revision", by: "the state store is put back", find: "AND c.revision >= s.confirmed\nRETURNING", replace: "\nRETURNING"},
	{name: "settle: the position stays", by: "the fence", find: "SET position = s.position,", replace: "SET position = c.position,"},
	{name: "settle: the snapshot stays", by: "late rows", find: "snapshot = s.snapshot,", replace: "snapshot = c.snapshot,"},
	{name: "settle: the revision stays", by: "the fence", find: "revision = s.revision,", replace: "revision = c.revision,"},
	{name: "acquire: the epoch stays", by: "the fence", find: "epoch = greatest(c.epoch + 1,", replace: "epoch = greatest(c.epoch, 0 *"},
	{name: "acquire: takes lanes of living owners", by: "two acquire", find: "w.owner IN (SELECT d.owner FROM dead d)", replace: "true"},
	{name: "acquire: owners whose lease is over live", by: "the fence", find: "i.lease_until <= clock_timestamp()", replace: "false"},
	{name: "acquire: takes lanes of a paused route", by: "pause", find: "u.route = ANY($1::text[]) AND", replace: "u.route = ANY($1::text[]) AND false AND"},
	{name: "acquire: takes more than wanted", by: "two share lanes", find: "free.place <= free.most AND", replace: ""},
	{name: "acquire: lanes of others before its own", by: "an instance acquires its own lane again", find: "ORDER BY w.owner = $4 DESC NULLS LAST, w.owner IS NULL DESC, w.slot", replace: "ORDER BY w.owner IS NULL DESC, w.slot"},
	{name: "bind: the route is not locked", by: "bind", find: "SELECT pg_advisory_xact_lock(hashtextextended('outrider route '", replace: "SELECT pg_advisory_xact_lock_shared(hashtextextended('outrider route '"},
	{name: "bind: rows of another table are none", by: "bind", find: "OR $3::text <> '' AND o.source NOT IN ('', $3::text)", replace: "OR $3::text <> '' AND false"},
	{name: "release: lanes of others too", by: "release of a lane that was lost", find: "AND c.slot = s.slot AND c.owner = $3", replace: "AND c.slot = s.slot AND $3::text <> ''"},
	{name: "read: late rows of running transactions are overlooked", by: "late rows", find: "FROM pg_snapshot_xip($3::pg_snapshot) AS x(xid)", replace: "FROM pg_snapshot_xip('1:1:'::pg_snapshot) AS x(xid)"},
	{name: "read: late rows of the next transaction are overlooked", by: "late rows of a slow insert", find: "o.xid >= pg_snapshot_xmax($3::pg_snapshot)", replace: "o.xid > pg_snapshot_xmax($3::pg_snapshot)"},
	{name: "read: late rows are noticed, and those of running transactions not read", by: "late rows", find: "FROM pg_snapshot_xip(r.snap) AS x(xid)", replace: "FROM pg_snapshot_xip('1:1:'::pg_snapshot) AS x(xid)"},
	{name: "read: late rows are noticed, and those of the next transaction not read", by: "late rows of a slow insert", find: "o.xid >= pg_snapshot_xmax(r.snap)", replace: "o.xid > pg_snapshot_xmax(r.snap)"},
	{name: "read: the row at the cursor again", by: "late rows", find: "o.slot = $1::smallint AND o.position > $2::bigint\n", replace: "o.slot = $1::smallint AND o.position >= $2::bigint\n"},
	{name: "read: the wrong order", by: "late rows", find: "ORDER BY o.slot, o.position\n    LIMIT $6::int", replace: "ORDER BY o.slot DESC, o.position DESC\n    LIMIT $6::int"},
	{name: "read: no limit", by: "late rows", find: "LIMIT $6::int", replace: "LIMIT $6::int + 10"},
	{name: "park: a message that was skipped comes back", by: "skip beside a failed attempt", find: "WHERE (k.seq >= l.stored", replace: "WHERE (true"},
	{name: "park: a redrive is overwritten", by: "redrive beside a failed attempt", find: "AND p.attempts = 0 AND p.status = 'retrying')", replace: "AND false)"},
	{name: "unpark: all messages of the lane", by: "one of two parked messages is delivered", find: "AND p.slot = u.slot AND p.seq = u.seq", replace: "AND p.slot = u.slot"},
	{name: "redrive, skip: the owner does not notice", by: "redrive beside a failed attempt", find: "SET commands = commands + 1", replace: "SET commands = commands + 0"},
	{name: "redrive: the attempts stay", by: "redrive beside a failed attempt", find: "SET status = 'retrying', attempts = 0,", replace: "SET status = 'retrying',"},
	{name: "purge: messages that are not dead too", by: "purge beside a redrive", find: "AND status IN ('dead')", replace: ""},
	{name: "skip: locked messages stay", by: "skip beside a session that locks a message", within: "max(seq), count(*)", find: ") AS k GROUP BY", replace: " FOR UPDATE SKIP LOCKED) AS k GROUP BY"},
	{name: "purge: held messages too", by: "purge and skip of held messages that a session locks", find: "AND status IN ('dead')", replace: "AND status IN ('dead', 'held')"},
	{name: "purge: locked messages stay", by: "purge beside a session that locks a dead message", within: "max(seq), count(*)", find: ") AS k GROUP BY", replace: " FOR UPDATE SKIP LOCKED) AS k GROUP BY"},
	{name: "seek: the epoch stays", by: "seek", find: "epoch = c.epoch + 1, commands", replace: "epoch = c.epoch, commands"},
	{name: "remove instance: the owner stays", by: "an instance is removed", find: "SET owner = NULL WHERE owner = ", replace: "SET owner = owner WHERE owner = "},
	{name: "forget: routes of living owners too", by: "a route is forgotten", within: "coalesce(min(i.id)", find: "i.id = c.owner", replace: "i.id = c.owner AND false"},
	{name: "seek: the owner stays", by: "seek", find: "owner = NULL, updated_at", replace: "owner = c.owner, updated_at"},
	{name: "deliver: what a lost commit has written is not found", by: "exactly once over a lost connection", find: "SELECT epoch, revision FROM", replace: "SELECT epoch, revision - 1 FROM"},
	{name: "deliver: skipped messages are not missed", by: "skip beside a delivery in a transaction", find: "SELECT p.route, p.slot, p.seq FROM \"public\".outrider_parked AS p\nJOIN unnest($1::text[], $2::smallint[], $3::bigint[]) AS u(route, slot, seq) ON p.route = u.route AND p.slot = u.slot AND p.seq = u.seq\nFOR UPDATE OF p",
		replace: "SELECT u.route, u.slot, u.seq FROM unnest($1::text[], $2::smallint[], $3::bigint[]) AS u(route, slot, seq)"},
	{name: "retention: late rows count as settled", by: "retention beside late rows", find: "pg_visible_in_snapshot(o.xid, r.snap) AS covered", replace: "true AS covered"},
	{name: "rebase: does not wait for publishers", by: "rebase beside late rows", within: "pg_locks", find: "l.mode = 'RowExclusiveLock'", replace: "l.mode = 'none'"},
	{name: "retention: rows behind the cursor too", by: "retention beside late rows", find: "o.position > m.mark AND o.position <= r.pos", replace: "o.position > m.mark"},
}

// partMutants are changes of the statements that remove partitions.
var partMutants = []*mutant{
	{name: "drop: late rows count as settled", by: "retention of partitions beside late rows", within: "o.position, o.xid, o.created_at FROM", find: "FROM pg_snapshot_xip(r.snap) AS x(xid)", replace: "FROM pg_snapshot_xip('1:1:'::pg_snapshot) AS x(xid)"},
	{name: "drop: rows behind the cursor too", by: "retention of partitions beside late rows", within: "o.position, o.xid, o.created_at FROM", find: "AND o.position > r.pos\n", replace: "AND o.position > r.pos + 100\n"},
}

// repeatableMutants and repeatableQueueMutants leave sessions the database's isolation level.
var (
	repeatableMutants      = []*mutant{{name: "connect: the isolation level stays", by: "redrive beside a failed attempt", within: "default_transaction_isolation", find: "read committed'", replace: "repeatable read'"}}
	repeatableQueueMutants = []*mutant{{name: "connect: the isolation level stays", by: "redrive beside a purge", within: "default_transaction_isolation", find: "read committed'", replace: "repeatable read'"}}
)

// queueMutants are changes of the statements of a queue table in PostgreSQL.
var queueMutants = []*mutant{
	{name: "find: the newest first", by: "two claim", find: "ORDER BY t.\"message_group\", t.\"created_at\"", replace: "ORDER BY t.\"message_group\" DESC, t.\"created_at\" DESC"},
	{name: "look: rows of other processors do not count", by: "another processor takes the first row of a group", find: "WHERE t.\"status\" = 'PROCESSING' AND t.\"message_group\"", replace: "WHERE t.\"status\" = 'NONE' AND t.\"message_group\""},
	{name: "take: waits for locks", by: "another session locks the first row of a group", find: "OF t SKIP LOCKED\n), prefix", replace: "OF t\n), prefix"},
	{name: "take: behind a locked row of the group too", by: "another session locks the first row of a group", find: "WHERE l.rank = l.place", replace: "WHERE true"},
	{name: "take: the status stays", by: "two claim", find: "SET \"status\" = 'PROCESSING', \"processed_at\" = (SELECT", replace: "SET \"processed_at\" = (SELECT"},
	{name: "settle: claims of others too", by: "a settle of claims that count as stuck", find: "WHERE t.\"id\" = s.key AND (t.\"status\" = 'PROCESSING') IS TRUE AND t.\"processed_at\" IN (s.stamp, s.former)\nRETURNING", replace: "WHERE t.\"id\" = s.key\nRETURNING"},
	{name: "settle: any time of the claim", by: "a settle of claims that count as stuck", find: "AND t.\"processed_at\" IN (s.stamp, s.former)\nRETURNING s.n::int", replace: "\nRETURNING s.n::int"},
	{name: "settle: delivered rows wait again", by: "two claim", find: "SET \"status\" = 'COMPLETED'", replace: "SET \"status\" = 'PENDING'"},
	{name: "extend: claims of others too", by: "claims that count as stuck", within: "renewed AS", find: "(t.\"status\" = 'PROCESSING') IS TRUE AND t.\"processed_at\" IN (s.stamp, s.former)", replace: "true"},
	{name: "recover: rows of any age", by: "recovery beside claims of the living", find: "t.\"processed_at\" < now() - make_interval(secs => $1)", replace: "$1::float8 > 0"},
	{name: "recover: its own claims too", by: "recovery beside its own claims", find: "t.\"id\" <> ALL ($2::", replace: "$2::text[] IS NOT NULL AND t.\"id\" <> ALL ('{}'::"},
	{name: "recover: delivered rows too", by: "recovery beside claims of the living", find: "WHERE t.\"status\" = 'PROCESSING' AND t.\"processed_at\" <", replace: "WHERE t.\"processed_at\" <"},
	{name: "redrive: rows that are not dead too", by: "redrive beside a redrive", find: "AND (t.\"status\" IN ('FAILED')) IS TRUE", replace: ""},
	{name: "purge: rows that are not dead too", by: "redrive beside a purge", find: "[]) AND (t.\"status\" IN ('FAILED')) IS TRUE", replace: "[])"},
	{name: "purge: locked rows stay", by: "purge beside a session that locks the dead row", within: "DELETE FROM", find: "[]) AND (t.\"status\" IN ('FAILED')) IS TRUE", replace: "[]) AND t.\"status\" = 'FAILED' AND t.\"id\" IN (SELECT \"id\" FROM public.outbox_events FOR UPDATE SKIP LOCKED)"},
	{name: "retention: rows that are not delivered too", by: "retention beside deliveries", within: "gone AS", find: "t.\"status\" = 'COMPLETED'", replace: "t.\"status\" <> ''"},
	{name: "retention: rows of any age", by: "retention beside deliveries", within: "gone AS", find: "make_interval(secs => $1)", replace: "make_interval(secs => 0 * $1)"},
	{name: "retention: waits for locks", by: "retention beside deliveries", within: "gone AS", find: "OF t SKIP LOCKED", replace: "OF t"},
}

// manyMutants are changes of the statement that claims many rows at once.
var manyMutants = []*mutant{
	{name: "take all: the status stays", by: "many rows are claimed at once", within: "FROM unnest($1::tid[]", find: "SET \"status\" = 'PROCESSING', \"processed_at\" = (SELECT", replace: "SET \"processed_at\" = (SELECT"},
}

// asideMutants are changes of the statements with which settles go aside.
var asideMutants = []*mutant{
	{name: "settle aside: any epoch", by: "the fence", within: "first AS", find: "WHERE s.place IS NULL AND c.epoch = s.epoch AND", replace: "WHERE s.place IS NULL AND"},
	{name: "settle aside: the position stays", by: "late rows behind settled ones", within: "later AS", find: "SET position = s.position,", replace: "SET position = h.position,"},
	{name: "fold: any epoch", by: "the fence", within: "gone AS", find: "AND c.epoch = s.epoch", replace: ""},
}

// mariadbStateMutants are changes of the statements of a state store in MariaDB.
var mariadbStateMutants = []*mutant{
	{name: "settle: any epoch", by: "the fence", find: "WHERE c.epoch = s.epoch AND c.revision", replace: "WHERE c.revision"},
	{name: "settle: any revision", by: "the state store is put back", find: "AND c.revision >= s.confirmed", replace: ""},
	{name: "settle: the position stays", by: "the fence", find: "SET c.position = s.position,", replace: "SET c.position = c.position,"},
	{name: "acquire: the route is not locked", by: "two acquire", find: "(route) VALUES ('orders') ON", replace: "(route) VALUES (uuid()) ON"},
	{name: "bind: the route is not locked", by: "bind", find: "(route) VALUES ('orders') ON", replace: "(route) VALUES (uuid()) ON"},
	{name: "acquire: the epoch is not written", by: "the fence", within: "SET owner = '", find: ", epoch = 1", replace: ", epoch = 0 * 1"},
	{name: "acquire: takes lanes of living owners", by: "two acquire", find: "coalesce((i.lease_until > ", replace: "coalesce((false AND i.lease_until > "},
	{name: "acquire: owners whose lease is over live", by: "the fence", find: "coalesce((i.lease_until > ", replace: "coalesce((true OR i.lease_until > "},
	{name: "bind: rows of another table are none", by: "bind", find: "AND (c.source <> '' OR c.updated_at IS NOT NULL)", replace: "AND false"},
	{name: "release: lanes of others too", by: "release of a lane that was lost", find: "SET owner = NULL WHERE owner = 'a' AND (", replace: "SET owner = NULL WHERE ("},
	{name: "park: a redrive is overwritten", by: "redrive beside a failed attempt", find: "attempts = 0 AND status = 'retrying' FROM", replace: "false FROM"},
	{name: "unpark: all messages of the lane", by: "one of two parked messages is delivered", within: "DELETE FROM outrider_parked WHERE (route", find: "AND seq IN (", replace: "AND 0 < ("},
	{name: "redrive, skip: the owner does not notice", by: "redrive beside a failed attempt", find: "SET commands = commands + 1", replace: "SET commands = commands + 0"},
	{name: "redrive: the attempts stay", by: "redrive beside a failed attempt", find: "SET status = 'retrying', attempts = 0,", replace: "SET status = 'retrying',"},
	{name: "purge: messages that are not dead too", by: "purge beside a redrive", find: "AND status IN ('dead')", replace: ""},
	{name: "skip: locked messages stay", by: "skip beside a session that locks a message", within: "max(seq), count(*)", find: ") AS k GROUP BY", replace: " FOR UPDATE SKIP LOCKED) AS k GROUP BY"},
	{name: "purge: held messages too", by: "purge and skip of held messages that a session locks", find: "AND status IN ('dead')", replace: "AND status IN ('dead', 'held')"},
	{name: "purge: locked messages stay", by: "purge beside a session that locks a dead message", within: "max(seq), count(*)", find: ") AS k GROUP BY", replace: " FOR UPDATE SKIP LOCKED) AS k GROUP BY"},
	{name: "remove instance: the owner stays", by: "an instance is removed", find: "SET owner = NULL WHERE owner = ", replace: "SET owner = owner WHERE owner = "},
	{name: "seek: the epoch stays", by: "seek", find: "epoch = epoch + 1, commands", replace: "epoch = epoch, commands"},
	{name: "forget: routes of living owners too", by: "a route is forgotten", within: "coalesce(min(i.id)", find: "i.id = c.owner", replace: "i.id = c.owner AND false"},
	{name: "seek: the owner stays", by: "seek", find: "commands = commands + 1, owner = NULL", replace: "commands = commands + 1"},
}

// mariadbQueueMutants are changes of the statements of a queue table in MariaDB.
var mariadbQueueMutants = []*mutant{
	{name: "lock: waits for locks", by: "another session locks the first row of a group", within: "NOW(6) FROM", find: ") FOR UPDATE SKIP LOCKED", replace: ") FOR UPDATE"},
	{name: "lock: rows that others have claimed too", by: "two claim", within: "NOW(6) FROM", find: "WHERE `status` IN ('PENDING') AND `id`", replace: "WHERE `id`"},
	{name: "take: the status stays", by: "two claim", find: "SET `status` = 'PROCESSING', ", replace: "SET "},
	{name: "settle: claims of others too", by: "a settle of claims that count as stuck", within: "`status` = 'COMPLETED'", find: "AND `processed_at` = ", replace: "AND `processed_at` IS NOT NULL OR `processed_at` = "},
	{name: "settle: delivered rows wait again", by: "two claim", find: "SET `status` = 'COMPLETED'", replace: "SET `status` = 'PENDING'"},
	{name: "recover: rows of any age", by: "recovery beside claims of the living", find: "HAVING age >= ", replace: "HAVING 0 <= age OR age >= "},
	{name: "redrive: rows that are not dead too", by: "redrive beside a redrive", within: "UPDATE `outbox_events`", find: "AND `status` IN ('FAILED')", replace: ""},
	{name: "purge: rows that are not dead too", by: "redrive beside a purge", within: "DELETE FROM `outbox_events`", find: "AND `status` IN ('FAILED')", replace: ""},
	{name: "retention: waits for locks", by: "retention beside deliveries", within: "IS NULL AND `status` IN ('COMPLETED')", find: " FOR UPDATE SKIP LOCKED", replace: " FOR UPDATE"},
}
