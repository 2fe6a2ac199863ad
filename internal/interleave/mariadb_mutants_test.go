package interleave_test

import "testing"

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
	{name: "seek: the epoch stays", by: "seek", find: "epoch = epoch + 1, commands", replace: "epoch = epoch, commands"},
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
}

func TestMutantsOfAStateStoreInMariaDB(t *testing.T) {
	t.Parallel()
	kill(t, mariadbStateMutants, stateScenarios, mariadbDatabase, mariadbStateWorld)
}

func TestMutantsOfAQueueInMariaDB(t *testing.T) {
	t.Parallel()
	kill(t, mariadbQueueMutants, queueScenarios, mariadbDatabase, mariadbQueueWorld)
}
