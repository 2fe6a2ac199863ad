-- # flowcatalyst
ALTER TABLE `outbox_events` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'PROCESSING') THEN LEFT(CAST(COALESCE(CONCAT('=', COALESCE(CONVERT(`message_group` USING utf8mb4), 'default')), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE
-- # flowcatalyst
ALTER TABLE `outbox_events` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'PROCESSING') THEN 1 WHEN `status` IN ('FAILED') THEN 2 END) VIRTUAL INVISIBLE
-- # flowcatalyst
ALTER TABLE `outbox_events` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE
-- # flowcatalyst
ALTER TABLE `outbox_events` ADD INDEX `outbox_events_outrider_queue_idx` (`outrider_queue`, `created_at`, `id`)
-- # flowcatalyst
ALTER TABLE `outbox_events` ADD INDEX `outbox_events_outrider_age_idx` (`outrider_state`, `created_at`, `id`)
-- # flowcatalyst
-- name
`outbox_events`
-- page
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('PROCESSING'), `processed_at`, NULL, `outrider_claim` FROM `outbox_events` FORCE INDEX (`outbox_events_outrider_queue_idx`) WHERE `outrider_queue` > {:queue} ORDER BY `outrider_queue`, `created_at`, `id` LIMIT {:limit}
-- pageOf
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('PROCESSING'), `processed_at`, NULL, `outrider_claim` FROM `outbox_events` FORCE INDEX (`outbox_events_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} ORDER BY `created_at`, `id` LIMIT {:limit}
-- pageOn
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('PROCESSING'), `processed_at`, NULL, `outrider_claim` FROM `outbox_events` FORCE INDEX (`outbox_events_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} AND (`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key}) ORDER BY `created_at`, `id` LIMIT {:limit}
-- behind
(`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key})
-- lock
SELECT `id`, `created_at`, NULL, NULL, COALESCE(`retry_count`, 0), CASE WHEN OCTET_LENGTH(`type`) > 1024 THEN SUBSTR(`type`, 1, 1024 + 1) ELSE `type` END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN NULL ELSE `payload` END, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN OCTET_LENGTH(`payload`) ELSE 0 END, `outrider_queue`, NOW(6) FROM `outbox_events` FORCE INDEX (`primary`) WHERE `status` IN ('PENDING') AND `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- payload
SELECT `payload` FROM `outbox_events` FORCE INDEX (`primary`) WHERE `id` = ?
-- take
UPDATE `outbox_events` SET `status` = 'PROCESSING', `processed_at` = {:stamp}, `outrider_claim` = {:token} WHERE `id` IN ({:keys}) AND `status` IN ('PENDING')
-- renew
UPDATE `outbox_events` SET `processed_at` = {:stamp} WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed} AND `outrider_claim` = {:token}
-- back
UPDATE `outbox_events` SET `status` = 'PENDING', `outrider_claim` = 0 WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed}
-- unclaim
UPDATE `outbox_events` SET `status` = 'PENDING', `outrider_claim` = 0 WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed} AND `outrider_claim` = {:token}
-- still
SELECT `id` FROM `outbox_events` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed} AND `outrider_claim` = {:token}
-- free
SELECT `id` FROM `outbox_events` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- Done
UPDATE `outbox_events` SET `status` = 'COMPLETED', `processed_at` = NOW(0), `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed} AND `outrider_claim` = {:token}
-- Retry
UPDATE `outbox_events` SET `status` = 'PENDING', `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed} AND `outrider_claim` = {:token}
-- Put
UPDATE `outbox_events` SET `status` = 'PENDING', `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead FAILED
UPDATE `outbox_events` SET `status` = 'FAILED', `error_message` = {:error}, `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('PROCESSING') AND `processed_at` = {:claimed} AND `outrider_claim` = {:token}
-- Redrive
UPDATE `outbox_events` SET `status` = 'PENDING', `retry_count` = 0
-- Grouped
FROM `outbox_events` FORCE INDEX (`outbox_events_outrider_queue_idx`) WHERE `outrider_queue` = ?
-- Aged Unfinished
FROM `outbox_events` FORCE INDEX (`outbox_events_outrider_age_idx`) WHERE `outrider_state` = 1
-- Aged Dead
FROM `outbox_events` FORCE INDEX (`outbox_events_outrider_age_idx`) WHERE `outrider_state` = 2
-- Aged Delivered
FROM `outbox_events` FORCE INDEX (`outbox_events_outrider_age_idx`) WHERE `outrider_state` IS NULL AND `status` IN ('COMPLETED')
-- After
(`created_at` > ? OR `created_at` = ? AND `id` > ?) [c c k]
-- # flowcatalyst-v2
ALTER TABLE `outbox_messages` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('0', '9') THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONVERT(`message_group` USING utf8mb4)) > 0 THEN CONVERT(`message_group` USING utf8mb4) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE
-- # flowcatalyst-v2
ALTER TABLE `outbox_messages` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('0', '9') THEN 1 WHEN `status` IN ('3', '2', '4', '5', '6') THEN 2 END) VIRTUAL INVISIBLE
-- # flowcatalyst-v2
ALTER TABLE `outbox_messages` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE
-- # flowcatalyst-v2
ALTER TABLE `outbox_messages` ADD INDEX `outbox_messages_outrider_queue_idx` (`outrider_queue`, `created_at`, `id`)
-- # flowcatalyst-v2
ALTER TABLE `outbox_messages` ADD INDEX `outbox_messages_outrider_age_idx` (`outrider_state`, `created_at`, `id`)
-- # flowcatalyst-v2
ALTER TABLE `outbox_messages` ADD INDEX `outbox_messages_outrider_status_idx` (`status`)
-- # flowcatalyst-v2
-- name
`outbox_messages`
-- page
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('9'), `updated_at`, NULL, `outrider_claim` FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` > {:queue} ORDER BY `outrider_queue`, `created_at`, `id` LIMIT {:limit}
-- pageOf
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('9'), `updated_at`, NULL, `outrider_claim` FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} ORDER BY `created_at`, `id` LIMIT {:limit}
-- pageOn
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('9'), `updated_at`, NULL, `outrider_claim` FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} AND (`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key}) ORDER BY `created_at`, `id` LIMIT {:limit}
-- behind
(`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key})
-- lock
SELECT `id`, `created_at`, NULL, NULL, COALESCE(`retry_count`, 0), CASE WHEN OCTET_LENGTH(`type`) > 1024 THEN SUBSTR(`type`, 1, 1024 + 1) ELSE `type` END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN NULL ELSE `payload` END, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN OCTET_LENGTH(`payload`) ELSE 0 END, `outrider_queue`, NOW(6) FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `status` IN ('0') AND `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- payload
SELECT `payload` FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `id` = ?
-- take
UPDATE `outbox_messages` SET `status` = '9', `updated_at` = {:stamp}, `outrider_claim` = {:token} WHERE `id` IN ({:keys}) AND `status` IN ('0')
-- renew
UPDATE `outbox_messages` SET `updated_at` = {:stamp} WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- back
UPDATE `outbox_messages` SET `status` = '0', `outrider_claim` = 0, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed}
-- unclaim
UPDATE `outbox_messages` SET `status` = '0', `outrider_claim` = 0, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- still
SELECT `id` FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- free
SELECT `id` FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- Done
DELETE FROM `outbox_messages` WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Retry
UPDATE `outbox_messages` SET `status` = '0', `error_message` = {:error}, `retry_count` = {:attempts}, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Put
UPDATE `outbox_messages` SET `status` = '0', `retry_count` = {:attempts}, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead 2
UPDATE `outbox_messages` SET `status` = '2', `error_message` = {:error}, `retry_count` = {:attempts}, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead 3
UPDATE `outbox_messages` SET `status` = '3', `error_message` = {:error}, `retry_count` = {:attempts}, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead 4
UPDATE `outbox_messages` SET `status` = '4', `error_message` = {:error}, `retry_count` = {:attempts}, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead 5
UPDATE `outbox_messages` SET `status` = '5', `error_message` = {:error}, `retry_count` = {:attempts}, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead 6
UPDATE `outbox_messages` SET `status` = '6', `error_message` = {:error}, `retry_count` = {:attempts}, `updated_at` = NOW(6) WHERE `id` IN ({:keys}) AND `status` IN ('9') AND `updated_at` = {:claimed} AND `outrider_claim` = {:token}
-- Redrive
UPDATE `outbox_messages` SET `status` = '0', `retry_count` = 0, `updated_at` = NOW(6)
-- Grouped
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` = ?
-- Aged Unfinished
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_age_idx`) WHERE `outrider_state` = 1
-- Aged Dead
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_age_idx`) WHERE `outrider_state` = 2
-- Aged Delivered
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_age_idx`) WHERE `outrider_state` IS NULL AND `status` IN ('1')
-- After
(`created_at` > ? OR `created_at` = ? AND `id` > ?) [c c k]
-- # talkie
ALTER TABLE `outbox` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('pending', 'failed', 'publishing') THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONVERT(`key` USING utf8mb4)) > 0 THEN CONVERT(`key` USING utf8mb4) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE
-- # talkie
ALTER TABLE `outbox` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('pending', 'failed', 'publishing') THEN 1 WHEN `status` IN ('dead_lettered') THEN 2 END) VIRTUAL INVISIBLE
-- # talkie
ALTER TABLE `outbox` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE
-- # talkie
ALTER TABLE `outbox` ADD INDEX `outbox_outrider_queue_idx` (`outrider_queue`, `created_at`, `id`)
-- # talkie
ALTER TABLE `outbox` ADD INDEX `outbox_outrider_age_idx` (`outrider_state`, `created_at`, `id`)
-- # talkie
-- name
`outbox`
-- page
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('publishing'), `last_attempt_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_attempt_at`), `outrider_claim` FROM `outbox` FORCE INDEX (`outbox_outrider_queue_idx`) WHERE `outrider_queue` > {:queue} ORDER BY `outrider_queue`, `created_at`, `id` LIMIT {:limit}
-- pageOf
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('publishing'), `last_attempt_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_attempt_at`), `outrider_claim` FROM `outbox` FORCE INDEX (`outbox_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} ORDER BY `created_at`, `id` LIMIT {:limit}
-- pageOn
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('publishing'), `last_attempt_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_attempt_at`), `outrider_claim` FROM `outbox` FORCE INDEX (`outbox_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} AND (`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key}) ORDER BY `created_at`, `id` LIMIT {:limit}
-- behind
(`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key})
-- lock
SELECT `id`, `created_at`, NULL, `next_attempt_at`, COALESCE(`retry_count`, 0), CASE WHEN OCTET_LENGTH(`topic`) > 1024 THEN SUBSTR(`topic`, 1, 1024 + 1) ELSE `topic` END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH(`payload_json`) > 32768 THEN NULL ELSE `payload_json` END, CASE WHEN OCTET_LENGTH(`payload_json`) > 32768 THEN OCTET_LENGTH(`payload_json`) ELSE 0 END, `outrider_queue`, CASE WHEN OCTET_LENGTH(`job_id`) > 1024 THEN SUBSTR(`job_id`, 1, 1024 + 1) ELSE `job_id` END, NOW(6) FROM `outbox` FORCE INDEX (`primary`) WHERE `status` IN ('pending', 'failed') AND `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- payload
SELECT `payload_json` FROM `outbox` FORCE INDEX (`primary`) WHERE `id` = ?
-- take
UPDATE `outbox` SET `status` = 'publishing', `last_attempt_at` = {:stamp}, `outrider_claim` = {:token} WHERE `id` IN ({:keys}) AND `status` IN ('pending', 'failed')
-- renew
UPDATE `outbox` SET `last_attempt_at` = {:stamp} WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- back
UPDATE `outbox` SET `status` = CASE WHEN COALESCE(`retry_count`, 0) > 0 THEN 'failed' ELSE 'pending' END, `outrider_claim` = 0 WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed}
-- unclaim
UPDATE `outbox` SET `status` = CASE WHEN COALESCE(`retry_count`, 0) > 0 THEN 'failed' ELSE 'pending' END, `outrider_claim` = 0 WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- still
SELECT `id` FROM `outbox` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- free
SELECT `id` FROM `outbox` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- Done
UPDATE `outbox` SET `status` = 'published', `published_at` = NOW(0), `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Retry
UPDATE `outbox` SET `status` = 'failed', `last_error` = {:error}, `next_attempt_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `next_attempt_at`), `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Put
UPDATE `outbox` SET `status` = CASE WHEN {:attempts} > 0 THEN 'failed' ELSE 'pending' END, `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead dead_lettered
UPDATE `outbox` SET `status` = 'dead_lettered', `last_error` = {:error}, `next_attempt_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `next_attempt_at`), `retry_count` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('publishing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Redrive
UPDATE `outbox` SET `status` = 'pending', `retry_count` = 0, `next_attempt_at` = NOW(0)
-- Grouped
FROM `outbox` FORCE INDEX (`outbox_outrider_queue_idx`) WHERE `outrider_queue` = ?
-- Aged Unfinished
FROM `outbox` FORCE INDEX (`outbox_outrider_age_idx`) WHERE `outrider_state` = 1
-- Aged Dead
FROM `outbox` FORCE INDEX (`outbox_outrider_age_idx`) WHERE `outrider_state` = 2
-- Aged Delivered
FROM `outbox` FORCE INDEX (`outbox_outrider_age_idx`) WHERE `outrider_state` IS NULL AND `status` IN ('published')
-- After
(`created_at` > ? OR `created_at` = ? AND `id` > ?) [c c <nil>]
-- # open-outbox
ALTER TABLE `openoutbox_events` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'DELIVERING') THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONVERT(`partition_key` USING utf8mb4)) > 0 THEN CONVERT(`partition_key` USING utf8mb4) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE
-- # open-outbox
ALTER TABLE `openoutbox_events` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'DELIVERING') THEN 1 WHEN `status` IN ('DEAD') THEN 2 END) VIRTUAL INVISIBLE
-- # open-outbox
ALTER TABLE `openoutbox_events` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE
-- # open-outbox
ALTER TABLE `openoutbox_events` ADD INDEX `openoutbox_events_outrider_queue_idx` (`outrider_queue`, `created_at`, `event_id`)
-- # open-outbox
ALTER TABLE `openoutbox_events` ADD INDEX `openoutbox_events_outrider_age_idx` (`outrider_state`, `created_at`, `event_id`)
-- # open-outbox
ALTER TABLE `openoutbox_events` ADD INDEX `openoutbox_events_outrider_status_idx` (`status`)
-- # open-outbox
-- name
`openoutbox_events`
-- page
SELECT `outrider_queue`, `created_at`, `event_id`, `status` IN ('DELIVERING'), `locked_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `available_at`), `outrider_claim` FROM `openoutbox_events` FORCE INDEX (`openoutbox_events_outrider_queue_idx`) WHERE `outrider_queue` > {:queue} ORDER BY `outrider_queue`, `created_at`, `event_id` LIMIT {:limit}
-- pageOf
SELECT `outrider_queue`, `created_at`, `event_id`, `status` IN ('DELIVERING'), `locked_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `available_at`), `outrider_claim` FROM `openoutbox_events` FORCE INDEX (`openoutbox_events_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} ORDER BY `created_at`, `event_id` LIMIT {:limit}
-- pageOn
SELECT `outrider_queue`, `created_at`, `event_id`, `status` IN ('DELIVERING'), `locked_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `available_at`), `outrider_claim` FROM `openoutbox_events` FORCE INDEX (`openoutbox_events_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} AND (`created_at` > {:created} OR `created_at` = {:created} AND `event_id` > {:key}) ORDER BY `created_at`, `event_id` LIMIT {:limit}
-- behind
(`created_at` > {:created} OR `created_at` = {:created} AND `event_id` > {:key})
-- lock
SELECT `event_id`, `created_at`, NULL, `available_at`, COALESCE(`attempts`, 0), CASE WHEN OCTET_LENGTH(`event_type`) > 1024 THEN SUBSTR(`event_type`, 1, 1024 + 1) ELSE `event_type` END, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH(`headers`) > 1048576 THEN SUBSTR(`headers`, 1, 1048576 + 1) ELSE `headers` END, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN NULL ELSE `payload` END, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN OCTET_LENGTH(`payload`) ELSE 0 END, `outrider_queue`, CASE WHEN OCTET_LENGTH(`event_id`) > 1024 THEN SUBSTR(`event_id`, 1, 1024 + 1) ELSE `event_id` END, NOW(6) FROM `openoutbox_events` FORCE INDEX (`primary`) WHERE `status` IN ('PENDING') AND `event_id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- payload
SELECT `payload` FROM `openoutbox_events` FORCE INDEX (`primary`) WHERE `event_id` = ?
-- take
UPDATE `openoutbox_events` SET `status` = 'DELIVERING', `locked_at` = {:stamp}, `outrider_claim` = {:token}, `locked_by` = 'outrider', `updated_at` = NOW(6) WHERE `event_id` IN ({:keys}) AND `status` IN ('PENDING')
-- renew
UPDATE `openoutbox_events` SET `locked_at` = {:stamp} WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- back
UPDATE `openoutbox_events` SET `status` = 'PENDING', `outrider_claim` = 0, `updated_at` = NOW(6), `locked_at` = NULL, `locked_by` = NULL WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed}
-- unclaim
UPDATE `openoutbox_events` SET `status` = 'PENDING', `outrider_claim` = 0, `updated_at` = NOW(6), `locked_at` = NULL, `locked_by` = NULL WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- still
SELECT `event_id` FROM `openoutbox_events` FORCE INDEX (`primary`) WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- free
SELECT `event_id` FROM `openoutbox_events` FORCE INDEX (`primary`) WHERE `event_id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- Done
UPDATE `openoutbox_events` SET `status` = 'DELIVERED', `delivered_at` = NOW(6), `attempts` = {:attempts}, `updated_at` = NOW(6), `locked_at` = NULL, `locked_by` = NULL WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Retry
UPDATE `openoutbox_events` SET `status` = 'PENDING', `last_error` = {:error}, `available_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `available_at`), `attempts` = {:attempts}, `updated_at` = NOW(6), `locked_at` = NULL, `locked_by` = NULL WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Put
UPDATE `openoutbox_events` SET `status` = 'PENDING', `attempts` = {:attempts}, `updated_at` = NOW(6), `locked_at` = NULL, `locked_by` = NULL WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead DEAD
UPDATE `openoutbox_events` SET `status` = 'DEAD', `last_error` = {:error}, `available_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `available_at`), `attempts` = {:attempts}, `updated_at` = NOW(6), `locked_at` = NULL, `locked_by` = NULL WHERE `event_id` IN ({:keys}) AND `status` IN ('DELIVERING') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Redrive
UPDATE `openoutbox_events` SET `status` = 'PENDING', `attempts` = 0, `available_at` = NOW(6), `updated_at` = NOW(6)
-- Grouped
FROM `openoutbox_events` FORCE INDEX (`openoutbox_events_outrider_queue_idx`) WHERE `outrider_queue` = ?
-- Aged Unfinished
FROM `openoutbox_events` FORCE INDEX (`openoutbox_events_outrider_age_idx`) WHERE `outrider_state` = 1
-- Aged Dead
FROM `openoutbox_events` FORCE INDEX (`openoutbox_events_outrider_age_idx`) WHERE `outrider_state` = 2
-- Aged Delivered
FROM `openoutbox_events` FORCE INDEX (`openoutbox_events_outrider_age_idx`) WHERE `outrider_state` IS NULL AND `status` IN ('DELIVERED')
-- After
(`created_at` > ? OR `created_at` = ? AND `event_id` > ?) [c c k]
-- # outbox-framework
ALTER TABLE `outbox_event` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN (0, 2) THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONCAT(COALESCE(CONCAT(CONVERT(`aggregate_type` USING utf8mb4), ':'), ''), CONVERT(`aggregate_id` USING utf8mb4))) > 0 THEN CONCAT(COALESCE(CONCAT(CONVERT(`aggregate_type` USING utf8mb4), ':'), ''), CONVERT(`aggregate_id` USING utf8mb4)) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE
-- # outbox-framework
ALTER TABLE `outbox_event` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN (0, 2) THEN 1 WHEN `status` IN (3) THEN 2 END) VIRTUAL INVISIBLE
-- # outbox-framework
ALTER TABLE `outbox_event` ADD INDEX `outbox_event_outrider_queue_idx` (`outrider_queue`, `created_at`, `event_id`)
-- # outbox-framework
ALTER TABLE `outbox_event` ADD INDEX `outbox_event_outrider_age_idx` (`outrider_state`, `created_at`, `event_id`)
-- # outbox-framework
-- name
`outbox_event`
-- page
SELECT `outrider_queue`, `created_at`, `event_id`, 0, NULL, TIMESTAMPDIFF(MICROSECOND, NOW(6), `available_at`), 0 FROM `outbox_event` FORCE INDEX (`outbox_event_outrider_queue_idx`) WHERE `outrider_queue` > {:queue} ORDER BY `outrider_queue`, `created_at`, `event_id` LIMIT {:limit}
-- pageOf
SELECT `outrider_queue`, `created_at`, `event_id`, 0, NULL, TIMESTAMPDIFF(MICROSECOND, NOW(6), `available_at`), 0 FROM `outbox_event` FORCE INDEX (`outbox_event_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} ORDER BY `created_at`, `event_id` LIMIT {:limit}
-- pageOn
SELECT `outrider_queue`, `created_at`, `event_id`, 0, NULL, TIMESTAMPDIFF(MICROSECOND, NOW(6), `available_at`), 0 FROM `outbox_event` FORCE INDEX (`outbox_event_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} AND (`created_at` > {:created} OR `created_at` = {:created} AND `event_id` > {:key}) ORDER BY `created_at`, `event_id` LIMIT {:limit}
-- behind
(`created_at` > {:created} OR `created_at` = {:created} AND `event_id` > {:key})
-- lock
SELECT `event_id`, `created_at`, NULL, `available_at`, COALESCE(`attempts`, 0), CASE WHEN OCTET_LENGTH(`event_type`) > 1024 THEN SUBSTR(`event_type`, 1, 1024 + 1) ELSE `event_type` END, CASE WHEN OCTET_LENGTH(`aggregate_type`) > 1024 THEN SUBSTR(`aggregate_type`, 1, 1024 + 1) ELSE `aggregate_type` END, CASE WHEN OCTET_LENGTH(`aggregate_id`) > 1024 THEN SUBSTR(`aggregate_id`, 1, 1024 + 1) ELSE `aggregate_id` END, CASE WHEN OCTET_LENGTH(`tenant_id`) > 1024 THEN SUBSTR(`tenant_id`, 1, 1024 + 1) ELSE `tenant_id` END, CASE WHEN OCTET_LENGTH(`headers`) > 1048576 THEN SUBSTR(`headers`, 1, 1048576 + 1) ELSE `headers` END, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN NULL ELSE `payload` END, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN OCTET_LENGTH(`payload`) ELSE 0 END, `outrider_queue`, NOW(6) FROM `outbox_event` FORCE INDEX (`primary`) WHERE `status` IN (0, 2) AND `event_id` IN ({:keys})
-- payload
SELECT `payload` FROM `outbox_event` FORCE INDEX (`primary`) WHERE `event_id` = ?
-- still
SELECT `event_id` FROM `outbox_event` FORCE INDEX (`primary`) WHERE `event_id` IN ({:keys}) AND `status` IN (0, 2)
-- free
SELECT `event_id` FROM `outbox_event` FORCE INDEX (`primary`) WHERE `event_id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- Done
UPDATE `outbox_event` SET `status` = 1, `done_at` = NOW(0), `attempts` = {:attempts} WHERE `event_id` IN ({:keys}) AND `status` IN (0, 2)
-- Retry
UPDATE `outbox_event` SET `status` = 2, `last_error` = {:error}, `available_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `available_at`), `attempts` = {:attempts} WHERE `event_id` IN ({:keys}) AND `status` IN (0, 2)
-- Put
UPDATE `outbox_event` SET `status` = CASE WHEN {:attempts} > 0 THEN 2 ELSE 0 END, `attempts` = {:attempts} WHERE `event_id` IN ({:keys}) AND `status` IN (0, 2)
-- Dead 3
UPDATE `outbox_event` SET `status` = 3, `last_error` = {:error}, `available_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `available_at`), `attempts` = {:attempts} WHERE `event_id` IN ({:keys}) AND `status` IN (0, 2)
-- Redrive
UPDATE `outbox_event` SET `status` = 0, `attempts` = 0, `available_at` = NOW(0)
-- Grouped
FROM `outbox_event` FORCE INDEX (`outbox_event_outrider_queue_idx`) WHERE `outrider_queue` = ?
-- Aged Unfinished
FROM `outbox_event` FORCE INDEX (`outbox_event_outrider_age_idx`) WHERE `outrider_state` = 1
-- Aged Dead
FROM `outbox_event` FORCE INDEX (`outbox_event_outrider_age_idx`) WHERE `outrider_state` = 2
-- Aged Delivered
FROM `outbox_event` FORCE INDEX (`outbox_event_outrider_age_idx`) WHERE `outrider_state` IS NULL AND `status` IN (1)
-- After
(`created_at` > ? OR `created_at` = ? AND `event_id` > ?) [c c k]
-- # yantra-v2
ALTER TABLE `outbox_messages` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('pending', 'processing') THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONVERT(`node_execution_id` USING utf8mb4)) > 0 THEN CONVERT(`node_execution_id` USING utf8mb4) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE
-- # yantra-v2
ALTER TABLE `outbox_messages` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('pending', 'processing') THEN 1 WHEN `status` IN ('dead_letter') THEN 2 END) VIRTUAL INVISIBLE
-- # yantra-v2
ALTER TABLE `outbox_messages` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE
-- # yantra-v2
ALTER TABLE `outbox_messages` ADD INDEX `outbox_messages_outrider_queue_idx` (`outrider_queue`, `created_at`, `id`)
-- # yantra-v2
ALTER TABLE `outbox_messages` ADD INDEX `outbox_messages_outrider_age_idx` (`outrider_state`, `created_at`, `id`)
-- # yantra-v2
ALTER TABLE `outbox_messages` ADD INDEX `outbox_messages_outrider_status_idx` (`status`)
-- # yantra-v2
-- name
`outbox_messages`
-- page
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('processing'), `last_attempt_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_retry_at`), `outrider_claim` FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` > {:queue} ORDER BY `outrider_queue`, `created_at`, `id` LIMIT {:limit}
-- pageOf
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('processing'), `last_attempt_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_retry_at`), `outrider_claim` FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} ORDER BY `created_at`, `id` LIMIT {:limit}
-- pageOn
SELECT `outrider_queue`, `created_at`, `id`, `status` IN ('processing'), `last_attempt_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_retry_at`), `outrider_claim` FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} AND (`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key}) ORDER BY `created_at`, `id` LIMIT {:limit}
-- behind
(`created_at` > {:created} OR `created_at` = {:created} AND `id` > {:key})
-- lock
SELECT `id`, `created_at`, NULL, `next_retry_at`, COALESCE(`attempts`, 0), CASE WHEN OCTET_LENGTH(`event_type`) > 1024 THEN SUBSTR(`event_type`, 1, 1024 + 1) ELSE `event_type` END, NULL, NULL, NULL, NULL, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN NULL ELSE `payload` END, CASE WHEN OCTET_LENGTH(`payload`) > 32768 THEN OCTET_LENGTH(`payload`) ELSE 0 END, `outrider_queue`, CASE WHEN OCTET_LENGTH(`idempotency_key`) > 1024 THEN SUBSTR(`idempotency_key`, 1, 1024 + 1) ELSE `idempotency_key` END, NOW(6) FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `status` IN ('pending') AND `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- payload
SELECT `payload` FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `id` = ?
-- take
UPDATE `outbox_messages` SET `status` = 'processing', `last_attempt_at` = {:stamp}, `outrider_claim` = {:token} WHERE `id` IN ({:keys}) AND `status` IN ('pending')
-- renew
UPDATE `outbox_messages` SET `last_attempt_at` = {:stamp} WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- back
UPDATE `outbox_messages` SET `status` = 'pending', `outrider_claim` = 0 WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed}
-- unclaim
UPDATE `outbox_messages` SET `status` = 'pending', `outrider_claim` = 0 WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- still
SELECT `id` FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- free
SELECT `id` FROM `outbox_messages` FORCE INDEX (`primary`) WHERE `id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- Done
UPDATE `outbox_messages` SET `status` = 'completed', `processed_at` = NOW(6), `attempts` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Retry
UPDATE `outbox_messages` SET `status` = 'pending', `last_error` = {:error}, `next_retry_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `next_retry_at`), `attempts` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Put
UPDATE `outbox_messages` SET `status` = 'pending', `attempts` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead dead_letter
UPDATE `outbox_messages` SET `status` = 'dead_letter', `last_error` = {:error}, `next_retry_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `next_retry_at`), `attempts` = {:attempts} WHERE `id` IN ({:keys}) AND `status` IN ('processing') AND `last_attempt_at` = {:claimed} AND `outrider_claim` = {:token}
-- Redrive
UPDATE `outbox_messages` SET `status` = 'pending', `attempts` = 0, `next_retry_at` = NOW(6)
-- Grouped
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_queue_idx`) WHERE `outrider_queue` = ?
-- Aged Unfinished
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_age_idx`) WHERE `outrider_state` = 1
-- Aged Dead
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_age_idx`) WHERE `outrider_state` = 2
-- Aged Delivered
FROM `outbox_messages` FORCE INDEX (`outbox_messages_outrider_age_idx`) WHERE `outrider_state` IS NULL AND `status` IN ('completed')
-- After
(`created_at` > ? OR `created_at` = ? AND `id` > ?) [c c k]
-- # custom
ALTER TABLE `Out {Box}` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `state` IN ('0', '2', '4') THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONVERT(`aggregate` USING utf8mb4)) > 0 THEN CONVERT(`aggregate` USING utf8mb4) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE
-- # custom
ALTER TABLE `Out {Box}` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `state` IN ('0', '2', '4') THEN 1 WHEN `state` IN ('3') THEN 2 END) VIRTUAL INVISIBLE
-- # custom
ALTER TABLE `Out {Box}` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE
-- # custom
ALTER TABLE `Out {Box}` ADD INDEX `Out {Box}_outrider_queue_idx` (`outrider_queue`, `created`, `Event Id`)
-- # custom
ALTER TABLE `Out {Box}` ADD INDEX `Out {Box}_outrider_age_idx` (`outrider_state`, `created`, `Event Id`)
-- # custom
ALTER TABLE `Out {Box}` ADD INDEX `Out {Box}_outrider_status_idx` (`state`)
-- # custom
-- name
`Out {Box}`
-- page
SELECT `outrider_queue`, `created`, `Event Id`, `state` IN ('4'), `locked_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_try_at`), `outrider_claim` FROM `Out {Box}` FORCE INDEX (`Out {Box}_outrider_queue_idx`) WHERE `outrider_queue` > {:queue} ORDER BY `outrider_queue`, `created`, `Event Id` LIMIT {:limit}
-- pageOf
SELECT `outrider_queue`, `created`, `Event Id`, `state` IN ('4'), `locked_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_try_at`), `outrider_claim` FROM `Out {Box}` FORCE INDEX (`Out {Box}_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} ORDER BY `created`, `Event Id` LIMIT {:limit}
-- pageOn
SELECT `outrider_queue`, `created`, `Event Id`, `state` IN ('4'), `locked_at`, TIMESTAMPDIFF(MICROSECOND, NOW(6), `next_try_at`), `outrider_claim` FROM `Out {Box}` FORCE INDEX (`Out {Box}_outrider_queue_idx`) WHERE `outrider_queue` = {:queue} AND (`created` > {:created} OR `created` = {:created} AND `Event Id` > {:key}) ORDER BY `created`, `Event Id` LIMIT {:limit}
-- behind
(`created` > {:created} OR `created` = {:created} AND `Event Id` > {:key})
-- lock
SELECT `Event Id`, `created`, NULL, `next_try_at`, COALESCE(`tries`, 0), CASE WHEN OCTET_LENGTH(`event_type`) > 1024 THEN SUBSTR(`event_type`, 1, 1024 + 1) ELSE `event_type` END, CASE WHEN OCTET_LENGTH(`kind`) > 1024 THEN SUBSTR(`kind`, 1, 1024 + 1) ELSE `kind` END, CASE WHEN OCTET_LENGTH(`aggregate`) > 1024 THEN SUBSTR(`aggregate`, 1, 1024 + 1) ELSE `aggregate` END, CASE WHEN OCTET_LENGTH(`tenant`) > 1024 THEN SUBSTR(`tenant`, 1, 1024 + 1) ELSE `tenant` END, CASE WHEN OCTET_LENGTH(`headers`) > 1048576 THEN SUBSTR(`headers`, 1, 1048576 + 1) ELSE `headers` END, CASE WHEN OCTET_LENGTH(`body`) > 32768 THEN NULL ELSE `body` END, CASE WHEN OCTET_LENGTH(`body`) > 32768 THEN OCTET_LENGTH(`body`) ELSE 0 END, `outrider_queue`, NOW(6) FROM `Out {Box}` FORCE INDEX (`primary`) WHERE `state` IN ('0', '2') AND `Event Id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- payload
SELECT `body` FROM `Out {Box}` FORCE INDEX (`primary`) WHERE `Event Id` = ?
-- take
UPDATE `Out {Box}` SET `state` = '4', `locked_at` = {:stamp}, `outrider_claim` = {:token}, `locked_by` = 'outrider' WHERE `Event Id` IN ({:keys}) AND `state` IN ('0', '2')
-- renew
UPDATE `Out {Box}` SET `locked_at` = {:stamp} WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- back
UPDATE `Out {Box}` SET `state` = CASE WHEN COALESCE(`tries`, 0) > 0 THEN '2' ELSE '0' END, `outrider_claim` = 0 WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed}
-- unclaim
UPDATE `Out {Box}` SET `state` = CASE WHEN COALESCE(`tries`, 0) > 0 THEN '2' ELSE '0' END, `outrider_claim` = 0 WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- still
SELECT `Event Id` FROM `Out {Box}` FORCE INDEX (`primary`) WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- free
SELECT `Event Id` FROM `Out {Box}` FORCE INDEX (`primary`) WHERE `Event Id` IN ({:keys}) FOR UPDATE SKIP LOCKED
-- Done
UPDATE `Out {Box}` SET `state` = '1', `sent_at` = NOW(6), `tries` = {:attempts} WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Retry
UPDATE `Out {Box}` SET `state` = '2', `last_error` = {:error}, `next_try_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `next_try_at`), `tries` = {:attempts} WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Put
UPDATE `Out {Box}` SET `state` = CASE WHEN {:attempts} > 0 THEN '2' ELSE '0' END, `tries` = {:attempts} WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Dead 3
UPDATE `Out {Box}` SET `state` = '3', `last_error` = {:error}, `next_try_at` = COALESCE(NOW(6) + INTERVAL {:due} MICROSECOND, `next_try_at`), `tries` = {:attempts} WHERE `Event Id` IN ({:keys}) AND `state` IN ('4') AND `locked_at` = {:claimed} AND `outrider_claim` = {:token}
-- Redrive
UPDATE `Out {Box}` SET `state` = '0', `tries` = 0, `next_try_at` = NOW(6)
-- Grouped
FROM `Out {Box}` FORCE INDEX (`Out {Box}_outrider_queue_idx`) WHERE `outrider_queue` = ?
-- Aged Unfinished
FROM `Out {Box}` FORCE INDEX (`Out {Box}_outrider_age_idx`) WHERE `outrider_state` = 1
-- Aged Dead
FROM `Out {Box}` FORCE INDEX (`Out {Box}_outrider_age_idx`) WHERE `outrider_state` = 2
-- Aged Delivered
FROM `Out {Box}` FORCE INDEX (`Out {Box}_outrider_age_idx`) WHERE `outrider_state` IS NULL AND `state` IN ('1')
-- After
(`created` > ? OR `created` = ? AND `Event Id` > ?) [c c k]
