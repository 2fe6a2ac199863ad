-- # flowcatalyst
-- name
"outbox_events"
-- group
(coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY
-- newest
SELECT coalesce(max(_rowid_), 0) FROM "outbox_events"
-- newer
SELECT _rowid_, (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY FROM "outbox_events" NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND +"status" IN ('PENDING') ORDER BY _rowid_ LIMIT {:limit}
-- alone
SELECT (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('PROCESSING'), +"processed_at", NULL FROM "outbox_events" INDEXED BY "outbox_events_outrider_group_idx" WHERE (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY IS NULL AND "status" IN ('PENDING', 'PROCESSING') ORDER BY "created_at", "id" LIMIT {:limit}
-- aloneOn
SELECT (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('PROCESSING'), +"processed_at", NULL FROM "outbox_events" INDEXED BY "outbox_events_outrider_group_idx" WHERE (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY IS NULL AND "status" IN ('PENDING', 'PROCESSING') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- groups
SELECT (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('PROCESSING'), +"processed_at", NULL FROM "outbox_events" INDEXED BY "outbox_events_outrider_group_idx" WHERE (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY IS NOT NULL AND "status" IN ('PENDING', 'PROCESSING') ORDER BY (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- groupsOn
SELECT (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('PROCESSING'), +"processed_at", NULL FROM "outbox_events" INDEXED BY "outbox_events_outrider_group_idx" WHERE (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY > {:group} AND "status" IN ('PENDING', 'PROCESSING') ORDER BY (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- ofGroup
SELECT (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('PROCESSING'), +"processed_at", NULL FROM "outbox_events" INDEXED BY "outbox_events_outrider_group_idx" WHERE (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY = {:group} AND "status" IN ('PENDING', 'PROCESSING') ORDER BY "created_at", "id" LIMIT {:limit}
-- ofGroupOn
SELECT (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('PROCESSING'), +"processed_at", NULL FROM "outbox_events" INDEXED BY "outbox_events_outrider_group_idx" WHERE (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY = {:group} AND "status" IN ('PENDING', 'PROCESSING') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- behind
("created_at", "id") > ({:created}, {:key})
-- read
SELECT +"id", +"created_at", NULL, NULL, CAST(coalesce("retry_count", 0) AS INTEGER), CASE WHEN OCTET_LENGTH("type") > 1024 THEN SUBSTR("type", 1, 1024 + 1) ELSE "type" END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN NULL ELSE "payload" END, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN OCTET_LENGTH("payload") ELSE 0 END, (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY FROM "outbox_events" WHERE +"status" IN ('PENDING') AND "id" IN ({:keys})
-- payload
SELECT "payload" FROM "outbox_events" WHERE "id" = ?
-- take
UPDATE "outbox_events" SET "status" = 'PROCESSING', "processed_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('PENDING')
-- renew
UPDATE "outbox_events" SET "processed_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('PROCESSING') AND "processed_at" = {:stamp}
-- stuck
SELECT +"id", +"processed_at" FROM "outbox_events" INDEXED BY "outbox_events_outrider_held_idx" WHERE "status" IN ('PROCESSING')
-- waits
SELECT count(*) FROM "outbox_events" WHERE "id" = {:key} AND +"status" IN ('PROCESSING') AND "processed_at" = {:stamp}
-- recover
UPDATE "outbox_events" SET "status" = 'PENDING' WHERE "id" = {:key} AND +"status" IN ('PROCESSING')
-- Done
UPDATE "outbox_events" SET "status" = 'COMPLETED', "processed_at" = {:done}, "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('PROCESSING') AND "processed_at" = {:stamp}
-- Retry
UPDATE "outbox_events" SET "status" = 'PENDING', "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('PROCESSING') AND "processed_at" = {:stamp}
-- Put
UPDATE "outbox_events" SET "status" = 'PENDING', "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('PROCESSING') AND "processed_at" = {:stamp}
-- Dead FAILED
UPDATE "outbox_events" SET "status" = 'FAILED', "error_message" = {:error}, "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('PROCESSING') AND "processed_at" = {:stamp}
-- Redrive
UPDATE "outbox_events" SET "status" = 'PENDING', "retry_count" = 0
-- Grouped
FROM "outbox_events" INDEXED BY "outbox_events_outrider_group_idx" WHERE (coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY = ? AND "status" IN ('PENDING', 'PROCESSING')
-- Aged Unfinished
FROM "outbox_events" INDEXED BY "outbox_events_outrider_age_idx" WHERE "status" IN ('PENDING', 'PROCESSING')
-- Aged Dead
FROM "outbox_events" INDEXED BY "outbox_events_outrider_dead_idx" WHERE "status" IN ('FAILED')
-- Aged Delivered
FROM "outbox_events" WHERE "status" IN ('COMPLETED')
-- After
("created_at", "id") > (?, ?) [c k]
-- index outbox_events_outrider_group_idx
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_group_idx" ON "outbox_events" ((coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, "created_at", "id") WHERE "status" IN ('PENDING', 'PROCESSING')
-- index outbox_events_outrider_age_idx
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_age_idx" ON "outbox_events" ("created_at", "id") WHERE "status" IN ('PENDING', 'PROCESSING')
-- index outbox_events_outrider_held_idx
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_held_idx" ON "outbox_events" ("processed_at") WHERE "status" IN ('PROCESSING')
-- index outbox_events_outrider_dead_idx
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_dead_idx" ON "outbox_events" ("created_at", "id") WHERE "status" IN ('FAILED')
-- # flowcatalyst-v2
-- name
"outbox_messages"
-- group
(nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY
-- newest
SELECT coalesce(max(_rowid_), 0) FROM "outbox_messages"
-- newer
SELECT _rowid_, (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY FROM "outbox_messages" NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND +"status" IN ('0') ORDER BY _rowid_ LIMIT {:limit}
-- alone
SELECT (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('9'), +"updated_at", NULL FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('0', '9') ORDER BY "created_at", "id" LIMIT {:limit}
-- aloneOn
SELECT (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('9'), +"updated_at", NULL FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('0', '9') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- groups
SELECT (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('9'), +"updated_at", NULL FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY IS NOT NULL AND "status" IN ('0', '9') ORDER BY (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- groupsOn
SELECT (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('9'), +"updated_at", NULL FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY > {:group} AND "status" IN ('0', '9') ORDER BY (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- ofGroup
SELECT (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('9'), +"updated_at", NULL FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('0', '9') ORDER BY "created_at", "id" LIMIT {:limit}
-- ofGroupOn
SELECT (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('9'), +"updated_at", NULL FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('0', '9') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- behind
("created_at", "id") > ({:created}, {:key})
-- read
SELECT +"id", +"created_at", NULL, NULL, CAST(coalesce("retry_count", 0) AS INTEGER), CASE WHEN OCTET_LENGTH("type") > 1024 THEN SUBSTR("type", 1, 1024 + 1) ELSE "type" END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN NULL ELSE "payload" END, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN OCTET_LENGTH("payload") ELSE 0 END, (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY FROM "outbox_messages" WHERE +"status" IN ('0') AND "id" IN ({:keys})
-- payload
SELECT "payload" FROM "outbox_messages" WHERE "id" = ?
-- take
UPDATE "outbox_messages" SET "status" = '9', "updated_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('0')
-- renew
UPDATE "outbox_messages" SET "updated_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- stuck
SELECT +"id", +"updated_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_held_idx" WHERE "status" IN ('9')
-- waits
SELECT count(*) FROM "outbox_messages" WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- recover
UPDATE "outbox_messages" SET "status" = '0', "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9')
-- Done
DELETE FROM "outbox_messages" WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Retry
UPDATE "outbox_messages" SET "status" = '0', "error_message" = {:error}, "retry_count" = {:attempts}, "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Put
UPDATE "outbox_messages" SET "status" = '0', "retry_count" = {:attempts}, "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Dead 2
UPDATE "outbox_messages" SET "status" = '2', "error_message" = {:error}, "retry_count" = {:attempts}, "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Dead 3
UPDATE "outbox_messages" SET "status" = '3', "error_message" = {:error}, "retry_count" = {:attempts}, "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Dead 4
UPDATE "outbox_messages" SET "status" = '4', "error_message" = {:error}, "retry_count" = {:attempts}, "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Dead 5
UPDATE "outbox_messages" SET "status" = '5', "error_message" = {:error}, "retry_count" = {:attempts}, "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Dead 6
UPDATE "outbox_messages" SET "status" = '6', "error_message" = {:error}, "retry_count" = {:attempts}, "updated_at" = {:updated} WHERE "id" = {:key} AND +"status" IN ('9') AND "updated_at" = {:stamp}
-- Redrive
UPDATE "outbox_messages" SET "status" = '0', "retry_count" = 0, "updated_at" = <now>
-- Grouped
FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY = ? AND "status" IN ('0', '9')
-- Aged Unfinished
FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_age_idx" WHERE "status" IN ('0', '9')
-- Aged Dead
FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_dead_idx" WHERE "status" IN ('3', '2', '4', '5', '6')
-- Aged Delivered
FROM "outbox_messages" WHERE "status" IN ('1')
-- After
("created_at", "id") > (?, ?) [c k]
-- index outbox_messages_outrider_group_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_group_idx" ON "outbox_messages" ((nullif(CAST("message_group" AS TEXT), '')) COLLATE BINARY, "created_at", "id") WHERE "status" IN ('0', '9')
-- index outbox_messages_outrider_age_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_age_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('0', '9')
-- index outbox_messages_outrider_held_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_held_idx" ON "outbox_messages" ("updated_at") WHERE "status" IN ('9')
-- index outbox_messages_outrider_dead_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_dead_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('3', '2', '4', '5', '6')
-- # talkie
-- name
"outbox"
-- group
(nullif(CAST("key" AS TEXT), '')) COLLATE BINARY
-- newest
SELECT coalesce(max(_rowid_), 0) FROM "outbox"
-- newer
SELECT _rowid_, (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY FROM "outbox" NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND +"status" IN ('pending', 'failed') ORDER BY _rowid_ LIMIT {:limit}
-- alone
SELECT (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('publishing'), +"last_attempt_at", +"next_attempt_at" FROM "outbox" INDEXED BY "outbox_outrider_group_idx" WHERE (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('pending', 'failed', 'publishing') ORDER BY "created_at", "id" LIMIT {:limit}
-- aloneOn
SELECT (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('publishing'), +"last_attempt_at", +"next_attempt_at" FROM "outbox" INDEXED BY "outbox_outrider_group_idx" WHERE (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('pending', 'failed', 'publishing') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- groups
SELECT (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('publishing'), +"last_attempt_at", +"next_attempt_at" FROM "outbox" INDEXED BY "outbox_outrider_group_idx" WHERE (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY IS NOT NULL AND "status" IN ('pending', 'failed', 'publishing') ORDER BY (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- groupsOn
SELECT (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('publishing'), +"last_attempt_at", +"next_attempt_at" FROM "outbox" INDEXED BY "outbox_outrider_group_idx" WHERE (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY > {:group} AND "status" IN ('pending', 'failed', 'publishing') ORDER BY (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- ofGroup
SELECT (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('publishing'), +"last_attempt_at", +"next_attempt_at" FROM "outbox" INDEXED BY "outbox_outrider_group_idx" WHERE (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('pending', 'failed', 'publishing') ORDER BY "created_at", "id" LIMIT {:limit}
-- ofGroupOn
SELECT (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('publishing'), +"last_attempt_at", +"next_attempt_at" FROM "outbox" INDEXED BY "outbox_outrider_group_idx" WHERE (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('pending', 'failed', 'publishing') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- behind
("created_at", "id") > ({:created}, {:key})
-- read
SELECT +"id", +"created_at", NULL, +"next_attempt_at", CAST(coalesce("retry_count", 0) AS INTEGER), CASE WHEN OCTET_LENGTH("topic") > 1024 THEN SUBSTR("topic", 1, 1024 + 1) ELSE "topic" END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH("payload_json") > 32768 THEN NULL ELSE "payload_json" END, CASE WHEN OCTET_LENGTH("payload_json") > 32768 THEN OCTET_LENGTH("payload_json") ELSE 0 END, (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, CASE WHEN OCTET_LENGTH("job_id") > 1024 THEN SUBSTR("job_id", 1, 1024 + 1) ELSE "job_id" END FROM "outbox" WHERE +"status" IN ('pending', 'failed') AND "id" IN ({:keys})
-- payload
SELECT "payload_json" FROM "outbox" WHERE "id" = ?
-- take
UPDATE "outbox" SET "status" = 'publishing', "last_attempt_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('pending', 'failed')
-- renew
UPDATE "outbox" SET "last_attempt_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('publishing') AND "last_attempt_at" = {:stamp}
-- stuck
SELECT +"id", +"last_attempt_at" FROM "outbox" INDEXED BY "outbox_outrider_held_idx" WHERE "status" IN ('publishing')
-- waits
SELECT count(*) FROM "outbox" WHERE "id" = {:key} AND +"status" IN ('publishing') AND "last_attempt_at" = {:stamp}
-- recover
UPDATE "outbox" SET "status" = CASE WHEN CAST(coalesce("retry_count", 0) AS INTEGER) > 0 THEN 'failed' ELSE 'pending' END WHERE "id" = {:key} AND +"status" IN ('publishing')
-- Done
UPDATE "outbox" SET "status" = 'published', "published_at" = {:done}, "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('publishing') AND "last_attempt_at" = {:stamp}
-- Retry
UPDATE "outbox" SET "status" = 'failed', "last_error" = {:error}, "next_attempt_at" = COALESCE({:due}, "next_attempt_at"), "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('publishing') AND "last_attempt_at" = {:stamp}
-- Put
UPDATE "outbox" SET "status" = CASE WHEN {:attempts} > 0 THEN 'failed' ELSE 'pending' END, "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('publishing') AND "last_attempt_at" = {:stamp}
-- Dead dead_lettered
UPDATE "outbox" SET "status" = 'dead_lettered', "last_error" = {:error}, "next_attempt_at" = COALESCE({:due}, "next_attempt_at"), "retry_count" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('publishing') AND "last_attempt_at" = {:stamp}
-- Redrive
UPDATE "outbox" SET "status" = 'pending', "retry_count" = 0, "next_attempt_at" = <now>
-- Grouped
FROM "outbox" INDEXED BY "outbox_outrider_group_idx" WHERE (nullif(CAST("key" AS TEXT), '')) COLLATE BINARY = ? AND "status" IN ('pending', 'failed', 'publishing')
-- Aged Unfinished
FROM "outbox" INDEXED BY "outbox_outrider_age_idx" WHERE "status" IN ('pending', 'failed', 'publishing')
-- Aged Dead
FROM "outbox" INDEXED BY "outbox_outrider_dead_idx" WHERE "status" IN ('dead_lettered')
-- Aged Delivered
FROM "outbox" WHERE "status" IN ('published')
-- After
("created_at", "id") > (?, ?) [c k]
-- index outbox_outrider_group_idx
CREATE INDEX IF NOT EXISTS "outbox_outrider_group_idx" ON "outbox" ((nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, "created_at", "id") WHERE "status" IN ('pending', 'failed', 'publishing')
-- index outbox_outrider_age_idx
CREATE INDEX IF NOT EXISTS "outbox_outrider_age_idx" ON "outbox" ("created_at", "id") WHERE "status" IN ('pending', 'failed', 'publishing')
-- index outbox_outrider_held_idx
CREATE INDEX IF NOT EXISTS "outbox_outrider_held_idx" ON "outbox" ("last_attempt_at") WHERE "status" IN ('publishing')
-- index outbox_outrider_dead_idx
CREATE INDEX IF NOT EXISTS "outbox_outrider_dead_idx" ON "outbox" ("created_at", "id") WHERE "status" IN ('dead_lettered')
-- # open-outbox
-- name
"openoutbox_events"
-- group
(nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY
-- newest
SELECT coalesce(max(_rowid_), 0) FROM "openoutbox_events"
-- newer
SELECT _rowid_, (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY FROM "openoutbox_events" NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND +"status" IN ('PENDING') ORDER BY _rowid_ LIMIT {:limit}
-- alone
SELECT (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"event_id", +"status" IN ('DELIVERING'), +"locked_at", +"available_at" FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_group_idx" WHERE (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('PENDING', 'DELIVERING') ORDER BY "created_at", "event_id" LIMIT {:limit}
-- aloneOn
SELECT (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"event_id", +"status" IN ('DELIVERING'), +"locked_at", +"available_at" FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_group_idx" WHERE (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('PENDING', 'DELIVERING') AND ("created_at", "event_id") > ({:created}, {:key}) ORDER BY "created_at", "event_id" LIMIT {:limit}
-- groups
SELECT (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"event_id", +"status" IN ('DELIVERING'), +"locked_at", +"available_at" FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_group_idx" WHERE (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY IS NOT NULL AND "status" IN ('PENDING', 'DELIVERING') ORDER BY (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, "created_at", "event_id" LIMIT {:limit}
-- groupsOn
SELECT (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"event_id", +"status" IN ('DELIVERING'), +"locked_at", +"available_at" FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_group_idx" WHERE (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY > {:group} AND "status" IN ('PENDING', 'DELIVERING') ORDER BY (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, "created_at", "event_id" LIMIT {:limit}
-- ofGroup
SELECT (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"event_id", +"status" IN ('DELIVERING'), +"locked_at", +"available_at" FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_group_idx" WHERE (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('PENDING', 'DELIVERING') ORDER BY "created_at", "event_id" LIMIT {:limit}
-- ofGroupOn
SELECT (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, +"created_at", +"event_id", +"status" IN ('DELIVERING'), +"locked_at", +"available_at" FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_group_idx" WHERE (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('PENDING', 'DELIVERING') AND ("created_at", "event_id") > ({:created}, {:key}) ORDER BY "created_at", "event_id" LIMIT {:limit}
-- behind
("created_at", "event_id") > ({:created}, {:key})
-- read
SELECT +"event_id", +"created_at", NULL, +"available_at", CAST(coalesce("attempts", 0) AS INTEGER), CASE WHEN OCTET_LENGTH("event_type") > 1024 THEN SUBSTR("event_type", 1, 1024 + 1) ELSE "event_type" END, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH("headers") > 1048576 THEN SUBSTR("headers", 1, 1048576 + 1) ELSE "headers" END, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN NULL ELSE "payload" END, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN OCTET_LENGTH("payload") ELSE 0 END, (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, CASE WHEN OCTET_LENGTH("event_id") > 1024 THEN SUBSTR("event_id", 1, 1024 + 1) ELSE "event_id" END FROM "openoutbox_events" WHERE +"status" IN ('PENDING') AND "event_id" IN ({:keys})
-- payload
SELECT "payload" FROM "openoutbox_events" WHERE "event_id" = ?
-- take
UPDATE "openoutbox_events" SET "status" = 'DELIVERING', "locked_at" = {:next}, "locked_by" = 'outrider', "updated_at" = {:updated} WHERE "event_id" = {:key} AND +"status" IN ('PENDING')
-- renew
UPDATE "openoutbox_events" SET "locked_at" = {:next} WHERE "event_id" = {:key} AND +"status" IN ('DELIVERING') AND "locked_at" = {:stamp}
-- stuck
SELECT +"event_id", +"locked_at" FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_held_idx" WHERE "status" IN ('DELIVERING')
-- waits
SELECT count(*) FROM "openoutbox_events" WHERE "event_id" = {:key} AND +"status" IN ('DELIVERING') AND "locked_at" = {:stamp}
-- recover
UPDATE "openoutbox_events" SET "status" = 'PENDING', "updated_at" = {:updated}, "locked_at" = NULL, "locked_by" = NULL WHERE "event_id" = {:key} AND +"status" IN ('DELIVERING')
-- Done
UPDATE "openoutbox_events" SET "status" = 'DELIVERED', "delivered_at" = {:done}, "attempts" = {:attempts}, "updated_at" = {:updated}, "locked_at" = NULL, "locked_by" = NULL WHERE "event_id" = {:key} AND +"status" IN ('DELIVERING') AND "locked_at" = {:stamp}
-- Retry
UPDATE "openoutbox_events" SET "status" = 'PENDING', "last_error" = {:error}, "available_at" = COALESCE({:due}, "available_at"), "attempts" = {:attempts}, "updated_at" = {:updated}, "locked_at" = NULL, "locked_by" = NULL WHERE "event_id" = {:key} AND +"status" IN ('DELIVERING') AND "locked_at" = {:stamp}
-- Put
UPDATE "openoutbox_events" SET "status" = 'PENDING', "attempts" = {:attempts}, "updated_at" = {:updated}, "locked_at" = NULL, "locked_by" = NULL WHERE "event_id" = {:key} AND +"status" IN ('DELIVERING') AND "locked_at" = {:stamp}
-- Dead DEAD
UPDATE "openoutbox_events" SET "status" = 'DEAD', "last_error" = {:error}, "available_at" = COALESCE({:due}, "available_at"), "attempts" = {:attempts}, "updated_at" = {:updated}, "locked_at" = NULL, "locked_by" = NULL WHERE "event_id" = {:key} AND +"status" IN ('DELIVERING') AND "locked_at" = {:stamp}
-- Redrive
UPDATE "openoutbox_events" SET "status" = 'PENDING', "attempts" = 0, "available_at" = <now>, "updated_at" = <now>
-- Grouped
FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_group_idx" WHERE (nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY = ? AND "status" IN ('PENDING', 'DELIVERING')
-- Aged Unfinished
FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_age_idx" WHERE "status" IN ('PENDING', 'DELIVERING')
-- Aged Dead
FROM "openoutbox_events" INDEXED BY "openoutbox_events_outrider_dead_idx" WHERE "status" IN ('DEAD')
-- Aged Delivered
FROM "openoutbox_events" WHERE "status" IN ('DELIVERED')
-- After
("created_at", "event_id") > (?, ?) [c k]
-- index openoutbox_events_outrider_group_idx
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_group_idx" ON "openoutbox_events" ((nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, "created_at", "event_id") WHERE "status" IN ('PENDING', 'DELIVERING')
-- index openoutbox_events_outrider_age_idx
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_age_idx" ON "openoutbox_events" ("created_at", "event_id") WHERE "status" IN ('PENDING', 'DELIVERING')
-- index openoutbox_events_outrider_held_idx
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_held_idx" ON "openoutbox_events" ("locked_at") WHERE "status" IN ('DELIVERING')
-- index openoutbox_events_outrider_dead_idx
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_dead_idx" ON "openoutbox_events" ("created_at", "event_id") WHERE "status" IN ('DEAD')
-- # outbox-framework
-- name
"outbox_event"
-- group
(nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY
-- newest
SELECT coalesce(max(_rowid_), 0) FROM "outbox_event"
-- newer
SELECT _rowid_, (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY FROM "outbox_event" NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND +"status" IN (0, 2) ORDER BY _rowid_ LIMIT {:limit}
-- alone
SELECT (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, +"created_at", +"event_id", 0, NULL, +"available_at" FROM "outbox_event" INDEXED BY "outbox_event_outrider_group_idx" WHERE (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY IS NULL AND "status" IN (0, 2) ORDER BY "created_at", "event_id" LIMIT {:limit}
-- aloneOn
SELECT (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, +"created_at", +"event_id", 0, NULL, +"available_at" FROM "outbox_event" INDEXED BY "outbox_event_outrider_group_idx" WHERE (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY IS NULL AND "status" IN (0, 2) AND ("created_at", "event_id") > ({:created}, {:key}) ORDER BY "created_at", "event_id" LIMIT {:limit}
-- groups
SELECT (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, +"created_at", +"event_id", 0, NULL, +"available_at" FROM "outbox_event" INDEXED BY "outbox_event_outrider_group_idx" WHERE (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY IS NOT NULL AND "status" IN (0, 2) ORDER BY (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, "created_at", "event_id" LIMIT {:limit}
-- groupsOn
SELECT (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, +"created_at", +"event_id", 0, NULL, +"available_at" FROM "outbox_event" INDEXED BY "outbox_event_outrider_group_idx" WHERE (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY > {:group} AND "status" IN (0, 2) ORDER BY (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, "created_at", "event_id" LIMIT {:limit}
-- ofGroup
SELECT (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, +"created_at", +"event_id", 0, NULL, +"available_at" FROM "outbox_event" INDEXED BY "outbox_event_outrider_group_idx" WHERE (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY = {:group} AND "status" IN (0, 2) ORDER BY "created_at", "event_id" LIMIT {:limit}
-- ofGroupOn
SELECT (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, +"created_at", +"event_id", 0, NULL, +"available_at" FROM "outbox_event" INDEXED BY "outbox_event_outrider_group_idx" WHERE (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY = {:group} AND "status" IN (0, 2) AND ("created_at", "event_id") > ({:created}, {:key}) ORDER BY "created_at", "event_id" LIMIT {:limit}
-- behind
("created_at", "event_id") > ({:created}, {:key})
-- read
SELECT +"event_id", +"created_at", NULL, +"available_at", CAST(coalesce("attempts", 0) AS INTEGER), CASE WHEN OCTET_LENGTH("event_type") > 1024 THEN SUBSTR("event_type", 1, 1024 + 1) ELSE "event_type" END, CASE WHEN OCTET_LENGTH("aggregate_type") > 1024 THEN SUBSTR("aggregate_type", 1, 1024 + 1) ELSE "aggregate_type" END, CASE WHEN OCTET_LENGTH("aggregate_id") > 1024 THEN SUBSTR("aggregate_id", 1, 1024 + 1) ELSE "aggregate_id" END, CASE WHEN OCTET_LENGTH("tenant_id") > 1024 THEN SUBSTR("tenant_id", 1, 1024 + 1) ELSE "tenant_id" END, CASE WHEN OCTET_LENGTH("headers") > 1048576 THEN SUBSTR("headers", 1, 1048576 + 1) ELSE "headers" END, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN NULL ELSE "payload" END, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN OCTET_LENGTH("payload") ELSE 0 END, (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY FROM "outbox_event" WHERE +"status" IN (0, 2) AND "event_id" IN ({:keys})
-- payload
SELECT "payload" FROM "outbox_event" WHERE "event_id" = ?
-- waits
SELECT count(*) FROM "outbox_event" WHERE "event_id" = {:key} AND +"status" IN (0, 2)
-- Done
UPDATE "outbox_event" SET "status" = 1, "done_at" = {:done}, "attempts" = {:attempts} WHERE "event_id" = {:key} AND +"status" IN (0, 2)
-- Retry
UPDATE "outbox_event" SET "status" = 2, "last_error" = {:error}, "available_at" = COALESCE({:due}, "available_at"), "attempts" = {:attempts} WHERE "event_id" = {:key} AND +"status" IN (0, 2)
-- Put
UPDATE "outbox_event" SET "status" = CASE WHEN {:attempts} > 0 THEN 2 ELSE 0 END, "attempts" = {:attempts} WHERE "event_id" = {:key} AND +"status" IN (0, 2)
-- Dead 3
UPDATE "outbox_event" SET "status" = 3, "last_error" = {:error}, "available_at" = COALESCE({:due}, "available_at"), "attempts" = {:attempts} WHERE "event_id" = {:key} AND +"status" IN (0, 2)
-- Redrive
UPDATE "outbox_event" SET "status" = 0, "attempts" = 0, "available_at" = <now>
-- Grouped
FROM "outbox_event" INDEXED BY "outbox_event_outrider_group_idx" WHERE (nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY = ? AND "status" IN (0, 2)
-- Aged Unfinished
FROM "outbox_event" INDEXED BY "outbox_event_outrider_age_idx" WHERE "status" IN (0, 2)
-- Aged Dead
FROM "outbox_event" INDEXED BY "outbox_event_outrider_dead_idx" WHERE "status" IN (3)
-- Aged Delivered
FROM "outbox_event" WHERE "status" IN (1)
-- After
("created_at", "event_id") > (?, ?) [c k]
-- index outbox_event_outrider_group_idx
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_group_idx" ON "outbox_event" ((nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, "created_at", "event_id") WHERE "status" IN (0, 2)
-- index outbox_event_outrider_age_idx
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_age_idx" ON "outbox_event" ("created_at", "event_id") WHERE "status" IN (0, 2)
-- index outbox_event_outrider_dead_idx
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_dead_idx" ON "outbox_event" ("created_at", "event_id") WHERE "status" IN (3)
-- # yantra-v2
-- name
"outbox_messages"
-- group
(nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY
-- newest
SELECT coalesce(max(_rowid_), 0) FROM "outbox_messages"
-- newer
SELECT _rowid_, (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY FROM "outbox_messages" NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND +"status" IN ('pending') ORDER BY _rowid_ LIMIT {:limit}
-- alone
SELECT (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('processing'), +"last_attempt_at", +"next_retry_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('pending', 'processing') ORDER BY "created_at", "id" LIMIT {:limit}
-- aloneOn
SELECT (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('processing'), +"last_attempt_at", +"next_retry_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY IS NULL AND "status" IN ('pending', 'processing') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- groups
SELECT (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('processing'), +"last_attempt_at", +"next_retry_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY IS NOT NULL AND "status" IN ('pending', 'processing') ORDER BY (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- groupsOn
SELECT (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('processing'), +"last_attempt_at", +"next_retry_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY > {:group} AND "status" IN ('pending', 'processing') ORDER BY (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, "created_at", "id" LIMIT {:limit}
-- ofGroup
SELECT (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('processing'), +"last_attempt_at", +"next_retry_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('pending', 'processing') ORDER BY "created_at", "id" LIMIT {:limit}
-- ofGroupOn
SELECT (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, +"created_at", +"id", +"status" IN ('processing'), +"last_attempt_at", +"next_retry_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY = {:group} AND "status" IN ('pending', 'processing') AND ("created_at", "id") > ({:created}, {:key}) ORDER BY "created_at", "id" LIMIT {:limit}
-- behind
("created_at", "id") > ({:created}, {:key})
-- read
SELECT +"id", +"created_at", NULL, +"next_retry_at", CAST(coalesce("attempts", 0) AS INTEGER), CASE WHEN OCTET_LENGTH("event_type") > 1024 THEN SUBSTR("event_type", 1, 1024 + 1) ELSE "event_type" END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN NULL ELSE "payload" END, CASE WHEN OCTET_LENGTH("payload") > 32768 THEN OCTET_LENGTH("payload") ELSE 0 END, (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, CASE WHEN OCTET_LENGTH("idempotency_key") > 1024 THEN SUBSTR("idempotency_key", 1, 1024 + 1) ELSE "idempotency_key" END FROM "outbox_messages" WHERE +"status" IN ('pending') AND "id" IN ({:keys})
-- payload
SELECT "payload" FROM "outbox_messages" WHERE "id" = ?
-- take
UPDATE "outbox_messages" SET "status" = 'processing', "last_attempt_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('pending')
-- renew
UPDATE "outbox_messages" SET "last_attempt_at" = {:next} WHERE "id" = {:key} AND +"status" IN ('processing') AND "last_attempt_at" = {:stamp}
-- stuck
SELECT +"id", +"last_attempt_at" FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_held_idx" WHERE "status" IN ('processing')
-- waits
SELECT count(*) FROM "outbox_messages" WHERE "id" = {:key} AND +"status" IN ('processing') AND "last_attempt_at" = {:stamp}
-- recover
UPDATE "outbox_messages" SET "status" = 'pending' WHERE "id" = {:key} AND +"status" IN ('processing')
-- Done
UPDATE "outbox_messages" SET "status" = 'completed', "processed_at" = {:done}, "attempts" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('processing') AND "last_attempt_at" = {:stamp}
-- Retry
UPDATE "outbox_messages" SET "status" = 'pending', "last_error" = {:error}, "next_retry_at" = COALESCE({:due}, "next_retry_at"), "attempts" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('processing') AND "last_attempt_at" = {:stamp}
-- Put
UPDATE "outbox_messages" SET "status" = 'pending', "attempts" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('processing') AND "last_attempt_at" = {:stamp}
-- Dead dead_letter
UPDATE "outbox_messages" SET "status" = 'dead_letter', "last_error" = {:error}, "next_retry_at" = COALESCE({:due}, "next_retry_at"), "attempts" = {:attempts} WHERE "id" = {:key} AND +"status" IN ('processing') AND "last_attempt_at" = {:stamp}
-- Redrive
UPDATE "outbox_messages" SET "status" = 'pending', "attempts" = 0, "next_retry_at" = <now>
-- Grouped
FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_group_idx" WHERE (nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY = ? AND "status" IN ('pending', 'processing')
-- Aged Unfinished
FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_age_idx" WHERE "status" IN ('pending', 'processing')
-- Aged Dead
FROM "outbox_messages" INDEXED BY "outbox_messages_outrider_dead_idx" WHERE "status" IN ('dead_letter')
-- Aged Delivered
FROM "outbox_messages" WHERE "status" IN ('completed')
-- After
("created_at", "id") > (?, ?) [c k]
-- index outbox_messages_outrider_group_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_group_idx" ON "outbox_messages" ((nullif(CAST("node_execution_id" AS TEXT), '')) COLLATE BINARY, "created_at", "id") WHERE "status" IN ('pending', 'processing')
-- index outbox_messages_outrider_age_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_age_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('pending', 'processing')
-- index outbox_messages_outrider_held_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_held_idx" ON "outbox_messages" ("last_attempt_at") WHERE "status" IN ('processing')
-- index outbox_messages_outrider_dead_idx
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_dead_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('dead_letter')
-- # custom
-- name
"Out ""{Box}"""
-- group
(nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY
-- newest
SELECT coalesce(max(_rowid_), 0) FROM "Out ""{Box}"""
-- newer
SELECT _rowid_, (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY FROM "Out ""{Box}""" NOT INDEXED WHERE _rowid_ > {:seen} AND _rowid_ <= {:newest} AND +"state" IN ('0', '2') ORDER BY _rowid_ LIMIT {:limit}
-- alone
SELECT (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, +"created", +"Event Id", +"state" IN ('4'), +"locked_at", +"next_try_at" FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_group_idx" WHERE (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY IS NULL AND "state" IN ('0', '2', '4') ORDER BY "created", "Event Id" LIMIT {:limit}
-- aloneOn
SELECT (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, +"created", +"Event Id", +"state" IN ('4'), +"locked_at", +"next_try_at" FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_group_idx" WHERE (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY IS NULL AND "state" IN ('0', '2', '4') AND ("created", "Event Id") > ({:created}, {:key}) ORDER BY "created", "Event Id" LIMIT {:limit}
-- groups
SELECT (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, +"created", +"Event Id", +"state" IN ('4'), +"locked_at", +"next_try_at" FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_group_idx" WHERE (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY IS NOT NULL AND "state" IN ('0', '2', '4') ORDER BY (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, "created", "Event Id" LIMIT {:limit}
-- groupsOn
SELECT (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, +"created", +"Event Id", +"state" IN ('4'), +"locked_at", +"next_try_at" FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_group_idx" WHERE (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY > {:group} AND "state" IN ('0', '2', '4') ORDER BY (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, "created", "Event Id" LIMIT {:limit}
-- ofGroup
SELECT (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, +"created", +"Event Id", +"state" IN ('4'), +"locked_at", +"next_try_at" FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_group_idx" WHERE (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY = {:group} AND "state" IN ('0', '2', '4') ORDER BY "created", "Event Id" LIMIT {:limit}
-- ofGroupOn
SELECT (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, +"created", +"Event Id", +"state" IN ('4'), +"locked_at", +"next_try_at" FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_group_idx" WHERE (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY = {:group} AND "state" IN ('0', '2', '4') AND ("created", "Event Id") > ({:created}, {:key}) ORDER BY "created", "Event Id" LIMIT {:limit}
-- behind
("created", "Event Id") > ({:created}, {:key})
-- read
SELECT +"Event Id", +"created", NULL, +"next_try_at", CAST(coalesce("tries", 0) AS INTEGER), CASE WHEN OCTET_LENGTH("event_type") > 1024 THEN SUBSTR("event_type", 1, 1024 + 1) ELSE "event_type" END, CASE WHEN OCTET_LENGTH("kind") > 1024 THEN SUBSTR("kind", 1, 1024 + 1) ELSE "kind" END, CASE WHEN OCTET_LENGTH("aggregate") > 1024 THEN SUBSTR("aggregate", 1, 1024 + 1) ELSE "aggregate" END, CASE WHEN OCTET_LENGTH("tenant") > 1024 THEN SUBSTR("tenant", 1, 1024 + 1) ELSE "tenant" END, CASE WHEN OCTET_LENGTH("headers") > 1048576 THEN SUBSTR("headers", 1, 1048576 + 1) ELSE "headers" END, CASE WHEN OCTET_LENGTH("body") > 32768 THEN NULL ELSE "body" END, CASE WHEN OCTET_LENGTH("body") > 32768 THEN OCTET_LENGTH("body") ELSE 0 END, (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY FROM "Out ""{Box}""" WHERE +"state" IN ('0', '2') AND "Event Id" IN ({:keys})
-- payload
SELECT "body" FROM "Out ""{Box}""" WHERE "Event Id" = ?
-- take
UPDATE "Out ""{Box}""" SET "state" = '4', "locked_at" = {:next} WHERE "Event Id" = {:key} AND +"state" IN ('0', '2')
-- renew
UPDATE "Out ""{Box}""" SET "locked_at" = {:next} WHERE "Event Id" = {:key} AND +"state" IN ('4') AND "locked_at" = {:stamp}
-- stuck
SELECT +"Event Id", +"locked_at" FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_held_idx" WHERE "state" IN ('4')
-- waits
SELECT count(*) FROM "Out ""{Box}""" WHERE "Event Id" = {:key} AND +"state" IN ('4') AND "locked_at" = {:stamp}
-- recover
UPDATE "Out ""{Box}""" SET "state" = CASE WHEN CAST(coalesce("tries", 0) AS INTEGER) > 0 THEN '2' ELSE '0' END WHERE "Event Id" = {:key} AND +"state" IN ('4')
-- Done
UPDATE "Out ""{Box}""" SET "state" = '1', "sent_at" = {:done}, "tries" = {:attempts} WHERE "Event Id" = {:key} AND +"state" IN ('4') AND "locked_at" = {:stamp}
-- Retry
UPDATE "Out ""{Box}""" SET "state" = '2', "last_error" = {:error}, "next_try_at" = COALESCE({:due}, "next_try_at"), "tries" = {:attempts} WHERE "Event Id" = {:key} AND +"state" IN ('4') AND "locked_at" = {:stamp}
-- Put
UPDATE "Out ""{Box}""" SET "state" = CASE WHEN {:attempts} > 0 THEN '2' ELSE '0' END, "tries" = {:attempts} WHERE "Event Id" = {:key} AND +"state" IN ('4') AND "locked_at" = {:stamp}
-- Dead 3
UPDATE "Out ""{Box}""" SET "state" = '3', "last_error" = {:error}, "next_try_at" = COALESCE({:due}, "next_try_at"), "tries" = {:attempts} WHERE "Event Id" = {:key} AND +"state" IN ('4') AND "locked_at" = {:stamp}
-- Redrive
UPDATE "Out ""{Box}""" SET "state" = '0', "tries" = 0, "next_try_at" = <now>
-- Grouped
FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_group_idx" WHERE (nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY = ? AND "state" IN ('0', '2', '4')
-- Aged Unfinished
FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_age_idx" WHERE "state" IN ('0', '2', '4')
-- Aged Dead
FROM "Out ""{Box}""" INDEXED BY "Out ""{Box}""_outrider_dead_idx" WHERE "state" IN ('3')
-- Aged Delivered
FROM "Out ""{Box}""" WHERE "state" IN ('1')
-- After
("created", "Event Id") > (?, ?) [c k]
-- index Out "{Box}"_outrider_group_idx
CREATE INDEX IF NOT EXISTS "Out ""{Box}""_outrider_group_idx" ON "Out ""{Box}""" ((nullif(CAST("aggregate" AS TEXT), '')) COLLATE BINARY, "created", "Event Id") WHERE "state" IN ('0', '2', '4')
-- index Out "{Box}"_outrider_age_idx
CREATE INDEX IF NOT EXISTS "Out ""{Box}""_outrider_age_idx" ON "Out ""{Box}""" ("created", "Event Id") WHERE "state" IN ('0', '2', '4')
-- index Out "{Box}"_outrider_held_idx
CREATE INDEX IF NOT EXISTS "Out ""{Box}""_outrider_held_idx" ON "Out ""{Box}""" ("locked_at") WHERE "state" IN ('4')
-- index Out "{Box}"_outrider_dead_idx
CREATE INDEX IF NOT EXISTS "Out ""{Box}""_outrider_dead_idx" ON "Out ""{Box}""" ("created", "Event Id") WHERE "state" IN ('3')
