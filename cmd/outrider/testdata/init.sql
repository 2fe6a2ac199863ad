-- outrider in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "outrider_outbox" (
    xid            xid8 NOT NULL DEFAULT pg_catalog.pg_current_xact_id(),
    slot           smallint GENERATED ALWAYS AS ((pg_catalog.hashtextextended(coalesce(message_group, id), 0) OPERATOR(pg_catalog.&) 15)::smallint) STORED,
    position       bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME "outrider_outbox_position_seq" CACHE 1),
    id             text NOT NULL DEFAULT pg_catalog.gen_random_uuid()::text,
    type           text NOT NULL,
    message_group  text,
    aggregate_type text,
    aggregate_id   text,
    tenant_id      text,
    tags           json,
    headers        json,
    payload        json,
    payload_bytes  bytea,
    occurred_at    timestamptz,
    created_at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL)), -- exactly one of them
    PRIMARY KEY (slot, position)
);

CREATE INDEX IF NOT EXISTS "outrider_outbox_slot_xid_position_idx" ON "outrider_outbox" (slot, xid, position);

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "outrider_outbox" TO "outrider_relay";
-- GRANT SELECT ON SEQUENCE "outrider_outbox_position_seq" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "outrider_outbox" TO "outrider_operator";
-- GRANT SELECT ON SEQUENCE "outrider_outbox_position_seq" TO "outrider_operator";
-- Applications that publish, which need no grant on a sequence:
-- and USAGE on the tables' schema, unless it is public
-- GRANT INSERT ON "outrider_outbox" TO "application";

-- watermill in postgres
-- source shop
-- Table "watermill_orders" (layout watermill) belongs to the application: Outrider only reads it, and
-- `outrider init` creates nothing of it. Reading needs these indexes, unless there are
-- some on the same columns already. CONCURRENTLY does not stop writers, and cannot
-- run inside a transaction.
-- To read what is new by position, and to find one row by it:
CREATE UNIQUE INDEX CONCURRENTLY "watermill_orders_outrider_offset_idx" ON "watermill_orders" ("offset");
-- The primary key serves to find rows that were committed late.

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "watermill_orders" TO "outrider_relay";
-- GRANT SELECT ON SEQUENCE "watermill_orders_offset_seq" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "watermill_orders" TO "outrider_operator";
-- GRANT SELECT ON SEQUENCE "watermill_orders_offset_seq" TO "outrider_operator";

-- flowcatalyst in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "outbox_events" (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX IF NOT EXISTS "idx_outbox_events_status" ON "outbox_events" (status, message_group, created_at);

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_waiting_idx" ON "outbox_events" ("message_group", "created_at", "id") WHERE "status" IN ('PENDING');
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_age_idx" ON "outbox_events" ("created_at", "id") WHERE "status" IN ('PENDING');
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_dead_idx" ON "outbox_events" ("created_at", "id") WHERE "status" IN ('FAILED');

CREATE TABLE IF NOT EXISTS "outbox_dispatch_jobs" (
    id VARCHAR(13) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status VARCHAR(20) NOT NULL,
    retry_count INT NOT NULL DEFAULT 0,
    created_at TIMESTAMP NOT NULL,
    processed_at TIMESTAMP,
    error_message TEXT
);

CREATE INDEX IF NOT EXISTS "idx_outbox_dispatch_jobs_status" ON "outbox_dispatch_jobs" (status, message_group, created_at);

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "outbox_dispatch_jobs_outrider_waiting_idx" ON "outbox_dispatch_jobs" ("message_group", "created_at", "id") WHERE "status" IN ('PENDING');
CREATE INDEX IF NOT EXISTS "outbox_dispatch_jobs_outrider_age_idx" ON "outbox_dispatch_jobs" ("created_at", "id") WHERE "status" IN ('PENDING');
CREATE INDEX IF NOT EXISTS "outbox_dispatch_jobs_outrider_dead_idx" ON "outbox_dispatch_jobs" ("created_at", "id") WHERE "status" IN ('FAILED');

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "processed_at", "retry_count", "error_message") ON "outbox_events" TO "outrider_relay";
-- GRANT SELECT, UPDATE ("status", "processed_at", "retry_count", "error_message") ON "outbox_dispatch_jobs" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "retry_count"), DELETE ON "outbox_events" TO "outrider_operator";
-- GRANT SELECT, UPDATE ("status", "retry_count"), DELETE ON "outbox_dispatch_jobs" TO "outrider_operator";

-- flowcatalyst-v2 in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "outbox_messages" (
    id VARCHAR(26) PRIMARY KEY,
    type VARCHAR(20) NOT NULL,
    message_group VARCHAR(255),
    payload TEXT NOT NULL,
    status SMALLINT NOT NULL DEFAULT 0,
    retry_count SMALLINT NOT NULL DEFAULT 0,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    error_message TEXT,
    client_id VARCHAR(26),
    payload_size INTEGER,
    headers JSONB
);

CREATE INDEX IF NOT EXISTS "idx_outbox_messages_pending" ON "outbox_messages" (status, message_group, created_at) WHERE status = 0;

CREATE INDEX IF NOT EXISTS "idx_outbox_messages_stuck" ON "outbox_messages" (status, created_at) WHERE status = 9;

CREATE INDEX IF NOT EXISTS "idx_outbox_client_pending" ON "outbox_messages" (client_id, status, created_at);

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_group_idx" ON "outbox_messages" ("message_group", "created_at", "id") WHERE "status" IN ('0', '9');
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_age_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('0', '9');
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_dead_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('3', '2', '4', '5', '6');

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "updated_at", "retry_count", "error_message"), DELETE ON "outbox_messages" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "retry_count", "updated_at"), DELETE ON "outbox_messages" TO "outrider_operator";

-- talkie in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "outbox" (
    id bigserial PRIMARY KEY,
    job_id uuid,
    topic text NOT NULL,
    key text,
    payload_json jsonb NOT NULL,
    idempotency_key text,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'publishing', 'published', 'failed', 'dead_lettered', 'canceled')),
    retry_count int NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND 100),
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    last_attempt_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz,
    last_error text
);

CREATE UNIQUE INDEX IF NOT EXISTS "ux_outbox_topic_idempotency" ON "outbox" (topic, idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE INDEX IF NOT EXISTS "idx_outbox_sched" ON "outbox" (status, next_attempt_at, created_at) WHERE status = 'pending';

CREATE INDEX IF NOT EXISTS "idx_outbox_failed" ON "outbox" (status, retry_count) WHERE status IN ('failed', 'dead_lettered');

CREATE INDEX IF NOT EXISTS "idx_outbox_topic_created" ON "outbox" (topic, created_at DESC);

CREATE INDEX IF NOT EXISTS "idx_outbox_job_created" ON "outbox" (job_id, created_at DESC);

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "outbox_outrider_group_idx" ON "outbox" ((CASE WHEN octet_length("key") > 1024 THEN rpad(substr("key", 1, 256), 1280, '.') ELSE "key" END), "created_at", "id") WHERE "status" IN ('pending', 'failed', 'publishing');
CREATE INDEX IF NOT EXISTS "outbox_outrider_age_idx" ON "outbox" ("created_at", "id") WHERE "status" IN ('pending', 'failed', 'publishing');
CREATE INDEX IF NOT EXISTS "outbox_outrider_dead_idx" ON "outbox" ("created_at", "id") WHERE "status" IN ('dead_lettered');

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "last_attempt_at", "published_at", "retry_count", "next_attempt_at", "last_error") ON "outbox" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "retry_count", "next_attempt_at"), DELETE ON "outbox" TO "outrider_operator";

-- open-outbox in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "openoutbox_events" (
    event_id uuid PRIMARY KEY,
    event_type text NOT NULL,
    partition_key text,
    payload bytea NOT NULL,
    headers jsonb NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'PENDING' CONSTRAINT check_valid_status CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')),
    attempts int NOT NULL DEFAULT 0,
    last_error text,
    available_at timestamptz NOT NULL DEFAULT now(),
    locked_by text,
    locked_at timestamptz,
    delivered_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS "idx_openoutbox_processing_queue" ON "openoutbox_events" (available_at, created_at) WHERE status = 'PENDING';

CREATE INDEX IF NOT EXISTS "idx_openoutbox_stuck_leases" ON "openoutbox_events" (locked_at) WHERE status = 'DELIVERING';

CREATE INDEX IF NOT EXISTS "idx_openoutbox_metrics_count" ON "openoutbox_events" (status) INCLUDE (attempts) WHERE status = 'PENDING';

CREATE INDEX IF NOT EXISTS "idx_openoutbox_metrics_lag" ON "openoutbox_events" (status, created_at) WHERE status = 'PENDING';

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_group_idx" ON "openoutbox_events" ((CASE WHEN octet_length("partition_key") > 1024 THEN rpad(substr("partition_key", 1, 256), 1280, '.') ELSE "partition_key" END), "created_at", "event_id") WHERE "status" IN ('PENDING', 'DELIVERING');
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_age_idx" ON "openoutbox_events" ("created_at", "event_id") WHERE "status" IN ('PENDING', 'DELIVERING');
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_dead_idx" ON "openoutbox_events" ("created_at", "event_id") WHERE "status" IN ('DEAD');

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "locked_at", "delivered_at", "attempts", "available_at", "last_error", "locked_by", "updated_at") ON "openoutbox_events" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "attempts", "available_at", "updated_at"), DELETE ON "openoutbox_events" TO "outrider_operator";

-- outbox-framework in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "outbox_event" (
    event_id varchar(36) PRIMARY KEY,
    event_type varchar(128) NOT NULL,
    aggregate_type varchar(64),
    aggregate_id varchar(128),
    tenant_id varchar(64),
    payload json NOT NULL,
    headers json,
    status smallint NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    available_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    done_at timestamptz,
    last_error text
);

CREATE INDEX IF NOT EXISTS "idx_status_available" ON "outbox_event" (status, available_at, created_at);

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_group_idx" ON "outbox_event" ((coalesce("aggregate_type"::text || ':', '') || "aggregate_id"::text), "created_at", "event_id") WHERE "status" IN ('0', '2');
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_age_idx" ON "outbox_event" ("created_at", "event_id") WHERE "status" IN ('0', '2');
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_dead_idx" ON "outbox_event" ("created_at", "event_id") WHERE "status" IN ('3');

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "done_at", "attempts", "available_at", "last_error") ON "outbox_event" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "attempts", "available_at"), DELETE ON "outbox_event" TO "outrider_operator";

-- yantra in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "outbox_messages" (
    id uuid PRIMARY KEY,
    aggregate_id varchar(255) NOT NULL,
    aggregate_type varchar(50) NOT NULL,
    event_type varchar(50) NOT NULL,
    payload jsonb NOT NULL,
    status varchar(20) NOT NULL,
    created_at timestamp NOT NULL,
    processed_at timestamp
);

CREATE INDEX IF NOT EXISTS "idx_outbox_status_created" ON "outbox_messages" (status, created_at) WHERE status = 'pending';

CREATE INDEX IF NOT EXISTS "idx_outbox_aggregate" ON "outbox_messages" (aggregate_id, aggregate_type);

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_group_idx" ON "outbox_messages" ("aggregate_id", "created_at", "id") WHERE "status" IN ('pending');
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_age_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('pending');
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_dead_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('failed');

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "processed_at") ON "outbox_messages" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status"), DELETE ON "outbox_messages" TO "outrider_operator";

-- yantra-v2 in postgres
-- source shop
CREATE TABLE IF NOT EXISTS "outbox_messages" (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    node_execution_id uuid NOT NULL,
    event_type text NOT NULL,
    payload text NOT NULL,
    status text NOT NULL DEFAULT 'pending',
    idempotency_key text NOT NULL,
    attempts bigint NOT NULL DEFAULT 0,
    max_attempts bigint DEFAULT 3,
    last_error text,
    last_attempt_at timestamptz,
    next_retry_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    processed_at timestamptz
);

CREATE UNIQUE INDEX IF NOT EXISTS "idx_outbox_messages_idempotency_key" ON "outbox_messages" (idempotency_key);

CREATE INDEX IF NOT EXISTS "idx_outbox_status_retry" ON "outbox_messages" (next_retry_at);

-- Keep claims cheap whatever is retained, and under an old snapshot. In a table that is in use:
-- CREATE INDEX CONCURRENTLY.
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_group_idx" ON "outbox_messages" ("node_execution_id", "created_at", "id") WHERE "status" IN ('pending', 'processing');
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_age_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('pending', 'processing');
CREATE INDEX IF NOT EXISTS "outbox_messages_outrider_dead_idx" ON "outbox_messages" ("created_at", "id") WHERE "status" IN ('dead_letter');

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "last_attempt_at", "processed_at", "attempts", "next_retry_at", "last_error") ON "outbox_messages" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, UPDATE ("status", "attempts", "next_retry_at"), DELETE ON "outbox_messages" TO "outrider_operator";

-- crablet in postgres
-- source shop
-- Table "events" (layout crablet) belongs to the application: Outrider only reads it, and
-- `outrider init` creates nothing of it. Reading needs these indexes, unless there are
-- some on the same columns already. CONCURRENTLY does not stop writers, and cannot
-- run inside a transaction.
-- To read what is new by position, and to find one row by it:
CREATE UNIQUE INDEX CONCURRENTLY "events_outrider_position_idx" ON "events" ("position");
-- The primary key serves to find rows that were committed late.

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "events" TO "outrider_relay";
-- GRANT SELECT ON SEQUENCE "events_position_seq" TO "outrider_relay"; -- where positions come from it
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "events" TO "outrider_operator";
-- GRANT SELECT ON SEQUENCE "events_position_seq" TO "outrider_operator"; -- where positions come from it

-- crablet-v2 in postgres
-- source shop
-- Table "crablet_events" (layout crablet-v2) belongs to the application: Outrider only reads it, and
-- `outrider init` creates nothing of it. Reading needs these indexes, unless there are
-- some on the same columns already. CONCURRENTLY does not stop writers, and cannot
-- run inside a transaction.
-- To read what is new by position, and to find one row by it:
CREATE UNIQUE INDEX CONCURRENTLY "crablet_events_outrider_position_idx" ON "crablet_events" ("position");
-- The primary key serves to find rows that were committed late.

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "crablet_events" TO "outrider_relay";
-- GRANT SELECT ON SEQUENCE "crablet_events_position_seq" TO "outrider_relay"; -- where positions come from it
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "crablet_events" TO "outrider_operator";
-- GRANT SELECT ON SEQUENCE "crablet_events_position_seq" TO "outrider_operator"; -- where positions come from it

-- debezium in postgres
-- source shop
-- Table "outbox" (layout debezium) belongs to the application. `outrider init` adds two columns to it,
-- without writing it again, as here. Rows that are there have no position and are not read. Run
-- this as the owner of the table.
BEGIN;
SET LOCAL lock_timeout = '5s';
CREATE SEQUENCE "outbox_outrider_position_seq";
-- Every role that inserts rows draws positions. That others can too, costs only numbers.
GRANT USAGE ON SEQUENCE "outbox_outrider_position_seq" TO PUBLIC;
ALTER TABLE "outbox" ADD COLUMN "outrider_position" bigint, ADD COLUMN "outrider_xid" xid8,
    ALTER COLUMN "outrider_position" SET DEFAULT nextval('"outbox_outrider_position_seq"'),
    ALTER COLUMN "outrider_xid" SET DEFAULT pg_catalog.pg_current_xact_id(),
    ADD CONSTRAINT "outbox_xid_set" CHECK ("outrider_xid" IS NOT NULL) NOT VALID;
ALTER SEQUENCE "outbox_outrider_position_seq" OWNED BY "outbox"."outrider_position";
COMMIT;
-- Reading needs these indexes, unless there are
-- some on the same columns already. CONCURRENTLY does not stop writers, and cannot
-- run inside a transaction.
-- To read what is new by position, and to find one row by it:
CREATE UNIQUE INDEX CONCURRENTLY "outbox_outrider_outrider_position_idx" ON "outbox" ("outrider_position");
-- To find rows that were committed late:
CREATE INDEX CONCURRENTLY "outbox_outrider_2_idx" ON "outbox" ("outrider_xid", "outrider_position");

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "outbox" TO "outrider_relay";
-- GRANT SELECT ON SEQUENCE "outbox_outrider_position_seq" TO "outrider_relay"; -- where positions come from it
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT ON "outbox" TO "outrider_operator";
-- GRANT SELECT ON SEQUENCE "outbox_outrider_position_seq" TO "outrider_operator"; -- where positions come from it

-- flowcatalyst in mysql
-- source shop
CREATE TABLE IF NOT EXISTS `outbox_events` (
    `id` VARCHAR(13) PRIMARY KEY,
    `type` VARCHAR(20) NOT NULL,
    `message_group` VARCHAR(255),
    `payload` LONGTEXT NOT NULL,
    `status` VARCHAR(20) NOT NULL,
    `retry_count` INT NOT NULL DEFAULT 0,
    `created_at` TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    `processed_at` TIMESTAMP(6) NULL,
    `error_message` TEXT,
    INDEX `idx_outbox_events_status` (status, message_group, created_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Added to the table: invisible columns, which SELECT * and INSERT without a list of columns do not see, and indexes of them.
-- They keep claims cheap, however many rows are kept.
ALTER TABLE `outbox_events` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'PROCESSING') THEN LEFT(CAST(COALESCE(CONCAT('=', COALESCE(CONVERT(`message_group` USING utf8mb4), 'default')), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox_events` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'PROCESSING') THEN 1 WHEN `status` IN ('FAILED') THEN 2 END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox_events` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE;
ALTER TABLE `outbox_events` ADD INDEX `outbox_events_outrider_queue_idx` (`outrider_queue`, `created_at`, `id`);
ALTER TABLE `outbox_events` ADD INDEX `outbox_events_outrider_age_idx` (`outrider_state`, `created_at`, `id`);

CREATE TABLE IF NOT EXISTS `outbox_dispatch_jobs` (
    `id` VARCHAR(13) PRIMARY KEY,
    `type` VARCHAR(20) NOT NULL,
    `message_group` VARCHAR(255),
    `payload` LONGTEXT NOT NULL,
    `status` VARCHAR(20) NOT NULL,
    `retry_count` INT NOT NULL DEFAULT 0,
    `created_at` TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    `processed_at` TIMESTAMP(6) NULL,
    `error_message` TEXT,
    INDEX `idx_outbox_dispatch_jobs_status` (status, message_group, created_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Added to the table: invisible columns, which SELECT * and INSERT without a list of columns do not see, and indexes of them.
-- They keep claims cheap, however many rows are kept.
ALTER TABLE `outbox_dispatch_jobs` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'PROCESSING') THEN LEFT(CAST(COALESCE(CONCAT('=', COALESCE(CONVERT(`message_group` USING utf8mb4), 'default')), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox_dispatch_jobs` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('PENDING', 'PROCESSING') THEN 1 WHEN `status` IN ('FAILED') THEN 2 END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox_dispatch_jobs` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE;
ALTER TABLE `outbox_dispatch_jobs` ADD INDEX `outbox_dispatch_jobs_outrider_queue_idx` (`outrider_queue`, `created_at`, `id`);
ALTER TABLE `outbox_dispatch_jobs` ADD INDEX `outbox_dispatch_jobs_outrider_age_idx` (`outrider_state`, `created_at`, `id`);

-- The user of `outrider run`:
-- GRANT SELECT, UPDATE ON `outbox_events` TO 'outrider_relay'@'%';
-- GRANT SELECT, UPDATE ON `outbox_dispatch_jobs` TO 'outrider_relay'@'%';
-- The user of operators' commands:
-- GRANT SELECT, UPDATE, DELETE ON `outbox_events` TO 'outrider_operator'@'%';
-- GRANT SELECT, UPDATE, DELETE ON `outbox_dispatch_jobs` TO 'outrider_operator'@'%';
-- Applications that publish:
-- GRANT INSERT ON `outbox_events` TO 'application'@'%';
-- GRANT INSERT ON `outbox_dispatch_jobs` TO 'application'@'%';

-- talkie in mysql
-- source shop
CREATE TABLE IF NOT EXISTS `outbox` (
    `id` BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `job_id` CHAR(36),
    `topic` VARCHAR(255) NOT NULL,
    `key` VARCHAR(255),
    `payload_json` LONGTEXT NOT NULL,
    `idempotency_key` VARCHAR(255),
    `status` VARCHAR(20) NOT NULL DEFAULT 'pending',
    `retry_count` INT NOT NULL DEFAULT 0,
    `next_attempt_at` TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    `last_attempt_at` TIMESTAMP(6) NULL,
    `created_at` TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    `published_at` TIMESTAMP(6) NULL,
    `last_error` TEXT,
    UNIQUE INDEX `ux_outbox_topic_idempotency` (topic, idempotency_key),
    INDEX `idx_outbox_sched` (status, next_attempt_at, created_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Added to the table: invisible columns, which SELECT * and INSERT without a list of columns do not see, and indexes of them.
-- They keep claims cheap, however many rows are kept.
ALTER TABLE `outbox` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN ('pending', 'failed', 'publishing') THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONVERT(`key` USING utf8mb4)) > 0 THEN CONVERT(`key` USING utf8mb4) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('pending', 'failed', 'publishing') THEN 1 WHEN `status` IN ('dead_lettered') THEN 2 END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox` ADD COLUMN `outrider_claim` bigint NOT NULL DEFAULT 0 INVISIBLE;
ALTER TABLE `outbox` ADD INDEX `outbox_outrider_queue_idx` (`outrider_queue`, `created_at`, `id`);
ALTER TABLE `outbox` ADD INDEX `outbox_outrider_age_idx` (`outrider_state`, `created_at`, `id`);

-- The user of `outrider run`:
-- GRANT SELECT, UPDATE ON `outbox` TO 'outrider_relay'@'%';
-- The user of operators' commands:
-- GRANT SELECT, UPDATE, DELETE ON `outbox` TO 'outrider_operator'@'%';
-- Applications that publish:
-- GRANT INSERT ON `outbox` TO 'application'@'%';

-- outbox-framework in mysql
-- source shop
CREATE TABLE IF NOT EXISTS `outbox_event` (
    `event_id` VARCHAR(36) PRIMARY KEY,
    `event_type` VARCHAR(128) NOT NULL,
    `aggregate_type` VARCHAR(64),
    `aggregate_id` VARCHAR(128),
    `tenant_id` VARCHAR(64),
    `payload` JSON NOT NULL,
    `headers` JSON,
    `status` TINYINT NOT NULL,
    `attempts` INT NOT NULL DEFAULT 0,
    `available_at` DATETIME(6) NOT NULL,
    `created_at` DATETIME(6) NOT NULL,
    `done_at` DATETIME(6),
    `last_error` TEXT,
    INDEX `idx_status_available` (status, available_at, created_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Added to the table: invisible columns, which SELECT * and INSERT without a list of columns do not see, and indexes of them.
-- They keep claims cheap, however many rows are kept.
ALTER TABLE `outbox_event` ADD COLUMN `outrider_queue` varbinary(1032) GENERATED ALWAYS AS (CASE WHEN `status` IN (0, 2) THEN LEFT(CAST(COALESCE(CONCAT('=', CASE WHEN OCTET_LENGTH(CONCAT(COALESCE(CONCAT(CONVERT(`aggregate_type` USING utf8mb4), ':'), ''), CONVERT(`aggregate_id` USING utf8mb4))) > 0 THEN CONCAT(COALESCE(CONCAT(CONVERT(`aggregate_type` USING utf8mb4), ':'), ''), CONVERT(`aggregate_id` USING utf8mb4)) END), '.') AS BINARY), 1032) END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox_event` ADD COLUMN `outrider_state` tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN (0, 2) THEN 1 WHEN `status` IN (3) THEN 2 END) VIRTUAL INVISIBLE;
ALTER TABLE `outbox_event` ADD INDEX `outbox_event_outrider_queue_idx` (`outrider_queue`, `created_at`, `event_id`);
ALTER TABLE `outbox_event` ADD INDEX `outbox_event_outrider_age_idx` (`outrider_state`, `created_at`, `event_id`);

-- The user of `outrider run`:
-- GRANT SELECT, UPDATE ON `outbox_event` TO 'outrider_relay'@'%';
-- The user of operators' commands:
-- GRANT SELECT, UPDATE, DELETE ON `outbox_event` TO 'outrider_operator'@'%';
-- Applications that publish:
-- GRANT INSERT ON `outbox_event` TO 'application'@'%';

-- flowcatalyst in mongodb
// source shop
// For mongosh, connected to the database shop.
db.getCollection("outbox_events").createIndex({"status": 1, "messageGroup": 1, "createdAt": 1});
db.getCollection("outbox_events").createIndex({"messageGroup": 1, "createdAt": 1, "_id": 1}, {name: "outrider_group", partialFilterExpression: {"status": {"$gte": "PENDING"}}});
db.getCollection("outbox_events").createIndex({"createdAt": 1, "_id": 1}, {name: "outrider_age", partialFilterExpression: {"status": {"$gte": "PENDING"}}});
db.getCollection("outbox_events").createIndex({"processedAt": 1}, {name: "outrider_held", partialFilterExpression: {"status": "PROCESSING"}});
db.getCollection("outbox_events").createIndex({"status": 1, "createdAt": 1, "_id": 1}, {name: "outrider_dead", partialFilterExpression: {"status": "FAILED"}});
db.getCollection("outbox_dispatch_jobs").createIndex({"status": 1, "messageGroup": 1, "createdAt": 1});
db.getCollection("outbox_dispatch_jobs").createIndex({"messageGroup": 1, "createdAt": 1, "_id": 1}, {name: "outrider_group", partialFilterExpression: {"status": {"$gte": "PENDING"}}});
db.getCollection("outbox_dispatch_jobs").createIndex({"createdAt": 1, "_id": 1}, {name: "outrider_age", partialFilterExpression: {"status": {"$gte": "PENDING"}}});
db.getCollection("outbox_dispatch_jobs").createIndex({"processedAt": 1}, {name: "outrider_held", partialFilterExpression: {"status": "PROCESSING"}});
db.getCollection("outbox_dispatch_jobs").createIndex({"status": 1, "createdAt": 1, "_id": 1}, {name: "outrider_dead", partialFilterExpression: {"status": "FAILED"}});

-- outrider in sqlite
-- source shop
CREATE TABLE IF NOT EXISTS "outrider_outbox" (
    position       INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    type           TEXT NOT NULL,
    message_group  TEXT,
    aggregate_type TEXT,
    aggregate_id   TEXT,
    tenant_id      TEXT,
    tags           TEXT, -- a JSON object of strings
    headers        TEXT, -- a JSON object of strings
    payload        TEXT, -- JSON
    payload_bytes  BLOB, -- anything else
    occurred_at    TEXT, -- RFC 3339
    created_at     TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    CHECK ((payload IS NULL) <> (payload_bytes IS NULL))
);
CREATE TABLE IF NOT EXISTS outrider_file (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  TEXT NOT NULL
);
INSERT INTO outrider_file (one, id) VALUES (1, lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING;

-- flowcatalyst in sqlite
-- source shop
CREATE TABLE IF NOT EXISTS "outbox_events" (
    id text PRIMARY KEY NOT NULL,
    type text NOT NULL,
    message_group text,
    payload text NOT NULL,
    status text NOT NULL,
    retry_count integer NOT NULL DEFAULT 0,
    created_at text NOT NULL,
    processed_at text,
    error_message text
);

-- Keep claims cheap whatever is retained.
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_group_idx" ON "outbox_events" ((coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, "created_at", "id") WHERE "status" IN ('PENDING', 'PROCESSING');
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_age_idx" ON "outbox_events" ("created_at", "id") WHERE "status" IN ('PENDING', 'PROCESSING');
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_held_idx" ON "outbox_events" ("processed_at") WHERE "status" IN ('PROCESSING');
CREATE INDEX IF NOT EXISTS "outbox_events_outrider_dead_idx" ON "outbox_events" ("created_at", "id") WHERE "status" IN ('FAILED');

CREATE TABLE IF NOT EXISTS "outbox_dispatch_jobs" (
    id text PRIMARY KEY NOT NULL,
    type text NOT NULL,
    message_group text,
    payload text NOT NULL,
    status text NOT NULL,
    retry_count integer NOT NULL DEFAULT 0,
    created_at text NOT NULL,
    processed_at text,
    error_message text
);

-- Keep claims cheap whatever is retained.
CREATE INDEX IF NOT EXISTS "outbox_dispatch_jobs_outrider_group_idx" ON "outbox_dispatch_jobs" ((coalesce(CAST("message_group" AS TEXT), 'default')) COLLATE BINARY, "created_at", "id") WHERE "status" IN ('PENDING', 'PROCESSING');
CREATE INDEX IF NOT EXISTS "outbox_dispatch_jobs_outrider_age_idx" ON "outbox_dispatch_jobs" ("created_at", "id") WHERE "status" IN ('PENDING', 'PROCESSING');
CREATE INDEX IF NOT EXISTS "outbox_dispatch_jobs_outrider_held_idx" ON "outbox_dispatch_jobs" ("processed_at") WHERE "status" IN ('PROCESSING');
CREATE INDEX IF NOT EXISTS "outbox_dispatch_jobs_outrider_dead_idx" ON "outbox_dispatch_jobs" ("created_at", "id") WHERE "status" IN ('FAILED');

-- talkie in sqlite
-- source shop
CREATE TABLE IF NOT EXISTS "outbox" (
    id integer PRIMARY KEY AUTOINCREMENT,
    job_id text,
    topic text NOT NULL,
    key text,
    payload_json text NOT NULL,
    idempotency_key text,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'publishing', 'published', 'failed', 'dead_lettered', 'canceled')),
    retry_count integer NOT NULL DEFAULT 0 CHECK (retry_count BETWEEN 0 AND 100),
    next_attempt_at text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    last_attempt_at text,
    created_at text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    published_at text,
    last_error text
);

CREATE UNIQUE INDEX IF NOT EXISTS "ux_outbox_topic_idempotency" ON "outbox" (topic, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- Keep claims cheap whatever is retained.
CREATE INDEX IF NOT EXISTS "outbox_outrider_group_idx" ON "outbox" ((nullif(CAST("key" AS TEXT), '')) COLLATE BINARY, "created_at", "id") WHERE "status" IN ('pending', 'failed', 'publishing');
CREATE INDEX IF NOT EXISTS "outbox_outrider_age_idx" ON "outbox" ("created_at", "id") WHERE "status" IN ('pending', 'failed', 'publishing');
CREATE INDEX IF NOT EXISTS "outbox_outrider_held_idx" ON "outbox" ("last_attempt_at") WHERE "status" IN ('publishing');
CREATE INDEX IF NOT EXISTS "outbox_outrider_dead_idx" ON "outbox" ("created_at", "id") WHERE "status" IN ('dead_lettered');

-- open-outbox in sqlite
-- source shop
CREATE TABLE IF NOT EXISTS "openoutbox_events" (
    event_id text PRIMARY KEY NOT NULL,
    event_type text NOT NULL,
    partition_key text,
    payload blob NOT NULL,
    headers text NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'PENDING' CONSTRAINT check_valid_status CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD')),
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    available_at text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    locked_by text,
    locked_at text,
    delivered_at text,
    created_at text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    updated_at text NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);

-- Keep claims cheap whatever is retained.
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_group_idx" ON "openoutbox_events" ((nullif(CAST("partition_key" AS TEXT), '')) COLLATE BINARY, "created_at", "event_id") WHERE "status" IN ('PENDING', 'DELIVERING');
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_age_idx" ON "openoutbox_events" ("created_at", "event_id") WHERE "status" IN ('PENDING', 'DELIVERING');
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_held_idx" ON "openoutbox_events" ("locked_at") WHERE "status" IN ('DELIVERING');
CREATE INDEX IF NOT EXISTS "openoutbox_events_outrider_dead_idx" ON "openoutbox_events" ("created_at", "event_id") WHERE "status" IN ('DEAD');

-- outbox-framework in sqlite
-- source shop
CREATE TABLE IF NOT EXISTS "outbox_event" (
    event_id text PRIMARY KEY NOT NULL,
    event_type text NOT NULL,
    aggregate_type text,
    aggregate_id text,
    tenant_id text,
    payload text NOT NULL,
    headers text,
    status integer NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    available_at text NOT NULL,
    created_at text NOT NULL,
    done_at text,
    last_error text
);

CREATE INDEX IF NOT EXISTS "idx_status_available" ON "outbox_event" (status, available_at, created_at);

-- Keep claims cheap whatever is retained.
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_group_idx" ON "outbox_event" ((nullif(coalesce("aggregate_type" || ':', '') || "aggregate_id", '')) COLLATE BINARY, "created_at", "event_id") WHERE "status" IN (0, 2);
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_age_idx" ON "outbox_event" ("created_at", "event_id") WHERE "status" IN (0, 2);
CREATE INDEX IF NOT EXISTS "outbox_event_outrider_dead_idx" ON "outbox_event" ("created_at", "event_id") WHERE "status" IN (3);

-- state
-- All of it for a new installation; to upgrade, what follows the version that it has:
-- SELECT max(version_id) FROM outrider_migrations
CREATE TABLE outrider_migrations (
	id integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
	version_id bigint NOT NULL,
	is_applied boolean NOT NULL,
	tstamp timestamp NOT NULL DEFAULT now()
);
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (0, true);

-- Version 1
-- One row per lane. It is updated by every settle, so no index but the primary
-- key, a lot of free space per page, and updates stay heap-only (HOT).
CREATE TABLE outrider_cursor (
    route           text     NOT NULL,
    slot            smallint NOT NULL,
    position        bigint   NOT NULL DEFAULT 0,
    snapshot        text     NOT NULL DEFAULT '',
    window_snapshot text     NOT NULL DEFAULT '',
    paged           bigint   NOT NULL DEFAULT 0,
    base            bigint   NOT NULL DEFAULT 0,
    beyond          bigint[] NOT NULL DEFAULT '{}',
    next_seq        bigint   NOT NULL DEFAULT 1,
    epoch           bigint   NOT NULL DEFAULT 0,
    owner           text,
    cluster         text     NOT NULL DEFAULT '',
    commands        bigint   NOT NULL DEFAULT 0,
    updated_at      timestamptz, -- of the last settle; NULL: never settled
    PRIMARY KEY (route, slot)
) WITH (fillfactor = 20);

CREATE TABLE outrider_instance (
    id          text        PRIMARY KEY,
    lease_until timestamptz NOT NULL,
    joined_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE outrider_parked (
    route           text        NOT NULL,
    slot            smallint    NOT NULL,
    seq             bigint      NOT NULL,
    message_group   text, -- NULL: the message parks alone
    status          text        NOT NULL CHECK (status IN ('retrying', 'waiting', 'held', 'dead')),
    attempts        integer     NOT NULL,
    next_attempt_at timestamptz,
    last_error      text        NOT NULL,
    event_id        text        NOT NULL,
    event_type      text        NOT NULL,
    position        bigint      NOT NULL,
    metadata        jsonb       NOT NULL,
    payload         bytea       NOT NULL,
    parked_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (route, slot, seq)
);

-- Dead messages may be many and are kept for long; what keeps a lane's groups
-- from flowing is found without meeting them. Groups and ids are indexed by
-- their hash because an index entry has a maximum size and they have none.
CREATE INDEX outrider_parked_flow ON outrider_parked (route, slot, seq) INCLUDE (status) WHERE status <> 'dead';
CREATE INDEX outrider_parked_queue ON outrider_parked
    (route, slot, pg_catalog.hashtextextended(coalesce(message_group, ''), 0), seq) WHERE status <> 'dead';
CREATE INDEX outrider_parked_dead ON outrider_parked (route, slot, seq) WHERE status = 'dead';
CREATE INDEX outrider_parked_event ON outrider_parked USING hash (event_id);

CREATE TABLE outrider_audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    by      text        NOT NULL,
    action  text        NOT NULL,
    filter  jsonb       NOT NULL,
    changed integer     NOT NULL
);
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (1, true);

-- Version 2
-- What operators, or an address that answered 410, have stopped. The empty
-- address is the route itself. Addresses have no maximum size and an index entry
-- has one, so they are unique by their hash.
CREATE TABLE outrider_pause (
    route   text        NOT NULL,
    address text        NOT NULL DEFAULT '',
    reason  text        NOT NULL,
    by      text        NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX outrider_pause_target ON outrider_pause (route, pg_catalog.md5(address));
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (2, true);

-- Version 3
-- The events that a route's dedupe middleware has seen delivered. An id is
-- written here as it is while it is short, longer ones by their digest, because an
-- index entry has a maximum size.
CREATE TABLE outrider_dedupe (
    route      text        NOT NULL,
    event_id   text        NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (route, event_id)
);
CREATE INDEX outrider_dedupe_expiry ON outrider_dedupe (expires_at);
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (3, true);

-- Version 4
-- The table that the cursor belongs to, so that retention knows whom to wait for.
-- Empty: unknown, and everybody's retention waits for it.
ALTER TABLE outrider_cursor ADD COLUMN source text NOT NULL DEFAULT '';
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (4, true);

-- Version 5
-- What others know of an instance beside its lease: when it was last heard of,
-- and which routes it runs, so that everybody finds the same share for each.
ALTER TABLE outrider_instance
    ADD COLUMN renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN routes     jsonb       NOT NULL DEFAULT '[]';

-- When the owner took the lane.
ALTER TABLE outrider_cursor ADD COLUMN acquired_at timestamptz;
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (5, true);

-- Version 6
-- anchor: the row at the cursor's position, by which a database that was put back
-- to an earlier state is known when it has caught up. Empty: not known.
-- revision: counts settles, so that an owner sees that the row itself was put back.
-- former: the cluster from which a rebase took the cursor.
ALTER TABLE outrider_cursor
    ADD COLUMN anchor   text   NOT NULL DEFAULT '',
    ADD COLUMN revision bigint NOT NULL DEFAULT 0,
    ADD COLUMN former   text   NOT NULL DEFAULT '';

-- Names of SQLite's tables did not say of which file.
UPDATE outrider_cursor SET source = '' WHERE source LIKE 'sqlite/%';
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (6, true);

-- Version 7
-- Which database role a command came from, whatever its author calls himself. Who
-- writes a record chooses neither this nor its time, see docs/security.md. Empty: a
-- record from before.
ALTER TABLE outrider_audit ADD COLUMN role text NOT NULL DEFAULT '';
ALTER TABLE outrider_audit ALTER COLUMN role SET DEFAULT session_user;
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (7, true);

-- Version 8
-- What operators have ordered of many messages or routes, and how far it is. A step
-- changes no column that is indexed, so its update is heap-only.
CREATE TABLE outrider_operation (
    id          text             PRIMARY KEY,
    kind        text             NOT NULL CHECK (kind IN ('redrive', 'skip', 'purge', 'seek')),
    subject     text             NOT NULL, -- JSON
    place       text             NOT NULL, -- JSON
    rate        double precision NOT NULL,
    by          text             NOT NULL,
    state       text             NOT NULL CHECK (state IN ('planned', 'running', 'stopped', 'done', 'failed')),
    total       bigint           NOT NULL,
    done        bigint           NOT NULL DEFAULT 0,
    failed      bigint           NOT NULL DEFAULT 0,
    error       text             NOT NULL DEFAULT '',
    created_at  timestamptz      NOT NULL,
    started_at  timestamptz,
    updated_at  timestamptz      NOT NULL,
    ended_at    timestamptz,
    owner       text             NOT NULL DEFAULT '',
    epoch       bigint           NOT NULL DEFAULT 0,
    lease_until timestamptz,
    taken_at    timestamptz,
    taken_done  bigint           NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
CREATE INDEX outrider_operation_active ON outrider_operation (id) WHERE state IN ('planned', 'running');

-- A paused group. Its address is one that no message has, so that a relay of an earlier
-- version, which knows of no groups, takes it neither for a pause of the route nor of
-- an address that is used.
ALTER TABLE outrider_pause ADD COLUMN message_group text NOT NULL DEFAULT '';
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (8, true);

-- Version 9
-- tries: the latest failed attempts, a JSON array. failure: names the group of messages that failed
-- in the same way, and begins with bits of the route's name, so that the groups of a route lie together. NULL: nothing
-- failed, or it was parked by an earlier version.
ALTER TABLE outrider_parked
    ADD COLUMN tries   text   NOT NULL DEFAULT '[]',
    ADD COLUMN failure bigint;

CREATE INDEX outrider_parked_failure ON outrider_parked (failure, slot, seq) INCLUDE (status, parked_at) WHERE failure IS NOT NULL;
CREATE INDEX outrider_parked_unnamed ON outrider_parked (route, slot, seq) WHERE failure IS NULL AND last_error <> '';
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (9, true);

-- Version 10
-- What a queue table without columns for attempts cannot say of its rows that have failed: how often, when they are due again,
-- why. dead: the note is of a row that was given up. A row that has not failed, or was delivered, has none.
CREATE TABLE outrider_note (
    queue      text        NOT NULL, -- the table, with its schema, quoted
    key        text        NOT NULL, -- of its row
    attempts   integer     NOT NULL,
    due_at     timestamptz,
    last_error text        NOT NULL,
    dead       boolean     NOT NULL,
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 70);
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (10, true);

-- Version 11
-- What was written, or found and carried out, of rows in another system's table of progress: whatever is different there
-- was written by others. A position below 0: nothing yet.
CREATE TABLE outrider_progress (
    route          text   NOT NULL PRIMARY KEY,
    progress_table text   NOT NULL, -- as in SQL
    topic          text   NOT NULL,
    publisher      text   NOT NULL,
    position       bigint NOT NULL,
    status         text   NOT NULL
) WITH (fillfactor = 70);
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (11, true);

-- Version 12
-- Where settles write the progress of a lane while an old snapshot keeps the dead versions of its cursor row: a lookup of that
-- row, and the check of its primary key, read all of them. The key of this row grows (part), so a lookup from its end and the check
-- read a few. It holds for the epoch of the cursor row, if its revision is not lower. The next epoch folds it into the cursor row.
CREATE TABLE outrider_settled (
    route           text        NOT NULL,
    slot            smallint    NOT NULL,
    epoch           bigint      NOT NULL,
    part            bigint      NOT NULL,
    position        bigint      NOT NULL,
    snapshot        text        NOT NULL,
    window_snapshot text        NOT NULL,
    paged           bigint      NOT NULL,
    base            bigint      NOT NULL,
    beyond          bigint[]    NOT NULL,
    next_seq        bigint      NOT NULL,
    cluster         text        NOT NULL,
    source          text        NOT NULL,
    anchor          text        NOT NULL,
    revision        bigint      NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (route, slot, epoch, part)
) WITH (fillfactor = 10);

-- Whoever takes a lane, also a build that does not know outrider_settled, gets what was settled there, and the settles of the
-- epoch before find no row any more. A move has no owner and sets the cursor itself. The rights are those of the tables' owner, because the
-- roles of such builds have none. The name is put together because `outrider init` writes schemas before those that it finds.
CREATE FUNCTION outrider_fold() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.epoch = OLD.epoch THEN
        RETURN NEW;
    END IF;
    FOR s IN EXECUTE format('DELETE FROM %I.%I WHERE route = $1 AND slot = $2 AND epoch = $3 RETURNING *', TG_TABLE_SCHEMA, 'outrider' || '_settled')
        USING OLD.route, OLD.slot, OLD.epoch
    LOOP
        CONTINUE WHEN TG_OP = 'DELETE' OR s.revision < NEW.revision;
        NEW.revision := s.revision;
        NEW.next_seq := greatest(NEW.next_seq, s.next_seq);
        CONTINUE WHEN NEW.owner IS NULL;
        NEW.position := s.position;
        NEW.snapshot := s.snapshot;
        NEW.window_snapshot := s.window_snapshot;
        NEW.paged := s.paged;
        NEW.base := s.base;
        NEW.beyond := s.beyond;
        NEW.cluster := s.cluster;
        NEW.source := s.source;
        NEW.anchor := s.anchor;
        NEW.updated_at := s.updated_at;
    END LOOP;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER fold BEFORE UPDATE OF epoch OR DELETE ON outrider_cursor FOR EACH ROW EXECUTE FUNCTION outrider_fold();
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (12, true);

-- The role of `outrider run`:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, INSERT, UPDATE ON "outrider_cursor" TO "outrider_relay";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_settled" TO "outrider_relay";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_instance" TO "outrider_relay";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_parked" TO "outrider_relay";
-- GRANT INSERT ("by", "action", "filter", "changed") ON "outrider_audit" TO "outrider_relay";
-- GRANT SELECT, INSERT ON "outrider_pause" TO "outrider_relay";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_operation" TO "outrider_relay";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_note" TO "outrider_relay";
-- GRANT SELECT, INSERT, UPDATE ON "outrider_progress" TO "outrider_relay";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_dedupe" TO "outrider_relay";
-- GRANT SELECT ON "outrider_migrations" TO "outrider_relay";
-- The role of operators' commands:
-- and USAGE on the tables' schema, unless it is public
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_cursor" TO "outrider_operator";
-- GRANT SELECT ON "outrider_settled" TO "outrider_operator";
-- GRANT SELECT, DELETE ON "outrider_instance" TO "outrider_operator";
-- GRANT SELECT, UPDATE, DELETE ON "outrider_parked" TO "outrider_operator";
-- GRANT SELECT, INSERT ("by", "action", "filter", "changed") ON "outrider_audit" TO "outrider_operator";
-- GRANT SELECT, INSERT, DELETE ON "outrider_pause" TO "outrider_operator";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_operation" TO "outrider_operator";
-- GRANT SELECT, DELETE ON "outrider_note" TO "outrider_operator";
-- GRANT SELECT, INSERT, UPDATE, DELETE ON "outrider_progress" TO "outrider_operator";
-- GRANT SELECT ON "outrider_migrations" TO "outrider_operator";


-- state
-- All of it for a new installation; to upgrade, what follows the version that it has:
-- SELECT max(version_id) FROM outrider_migrations
CREATE TABLE IF NOT EXISTS outrider_migrations (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    version_id BIGINT          NOT NULL,
    is_applied BOOLEAN         NOT NULL,
    tstamp     DATETIME        NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;
INSERT INTO outrider_migrations (version_id, is_applied)
SELECT 0, true FROM (SELECT count(*) AS n FROM outrider_migrations) AS t WHERE t.n = 0;

-- Version 1
-- MySQL commits before and after each of these statements, so a run that was cut short is repeated from its begin: each
-- can be run again. Texts that are compared are bytes: no collation takes two routes, groups or ids for one. Times are
-- microseconds since 1970.

-- One row per route, which is locked by whoever changes who has its lanes.
CREATE TABLE IF NOT EXISTS outrider_route (
    route VARBINARY(255) NOT NULL PRIMARY KEY
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- One row per lane, which every settle updates.
CREATE TABLE IF NOT EXISTS outrider_cursor (
    route           VARBINARY(255) NOT NULL,
    slot            SMALLINT       NOT NULL,
    position        BIGINT         NOT NULL DEFAULT 0,
    snapshot        LONGTEXT       NOT NULL,
    window_snapshot LONGTEXT       NOT NULL,
    paged           BIGINT         NOT NULL DEFAULT 0,
    base            BIGINT         NOT NULL DEFAULT 0,
    beyond          LONGTEXT       NOT NULL, -- a JSON array of positions
    next_seq        BIGINT         NOT NULL DEFAULT 1,
    epoch           BIGINT         NOT NULL DEFAULT 0,
    owner           VARBINARY(255),
    cluster         VARBINARY(255) NOT NULL DEFAULT '',
    source          VARBINARY(1024) NOT NULL DEFAULT '', -- the table that the cursor belongs to; empty: not known
    anchor          TEXT           NOT NULL, -- the row at the cursor's position; empty: not known
    revision        BIGINT         NOT NULL DEFAULT 0, -- counts settles
    former          VARBINARY(255) NOT NULL DEFAULT '', -- the cluster from which a rebase took the cursor
    commands        BIGINT         NOT NULL DEFAULT 0,
    acquired_at     BIGINT, -- when the owner took the lane
    updated_at      BIGINT, -- of the last settle; NULL: never settled
    PRIMARY KEY (route, slot)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- server: where the instance holds the lock that shows its life. On another server of a cluster that lock cannot be seen.
CREATE TABLE IF NOT EXISTS outrider_instance (
    id          VARBINARY(255) NOT NULL PRIMARY KEY,
    lease_until BIGINT         NOT NULL,
    joined_at   BIGINT         NOT NULL,
    renewed_at  BIGINT         NOT NULL,
    server      VARBINARY(255) NOT NULL,
    routes      LONGTEXT       NOT NULL -- a JSON array of objects
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- group_hash: of the group, 16 bytes of its SHA-256; NULL: the message parks alone. flows: it keeps its group from flowing. Both
-- are there for the index that a lane is loaded by, in which dead messages are apart. failure: names the group of messages
-- that failed in the same way.
CREATE TABLE IF NOT EXISTS outrider_parked (
    route           VARBINARY(255) NOT NULL,
    slot            SMALLINT       NOT NULL,
    seq             BIGINT         NOT NULL,
    message_group   MEDIUMBLOB,
    group_hash      BINARY(16),
    status          VARBINARY(8)   NOT NULL CHECK (status IN ('retrying', 'waiting', 'held', 'dead')),
    flows           TINYINT        GENERATED ALWAYS AS (status <> 'dead') STORED,
    attempts        INT            NOT NULL,
    next_attempt_at BIGINT,
    last_error      TEXT           NOT NULL,
    event_id        MEDIUMBLOB     NOT NULL,
    event_type      MEDIUMBLOB     NOT NULL,
    position        BIGINT         NOT NULL,
    metadata        LONGTEXT       NOT NULL, -- JSON
    payload         LONGBLOB       NOT NULL,
    parked_at       BIGINT         NOT NULL,
    tries           LONGTEXT       NOT NULL, -- the latest failed attempts, JSON
    failure         BIGINT,
    PRIMARY KEY (route, slot, seq),
    KEY outrider_parked_queue (route, slot, flows, group_hash, seq),
    KEY outrider_parked_status (status, route, slot, seq),
    KEY outrider_parked_event (event_id(64)),
    KEY outrider_parked_failure (failure, slot, seq, status, parked_at)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- Who writes a record chooses neither its number nor its time nor its role: the login and its host.
CREATE TABLE IF NOT EXISTS outrider_audit (
    id      BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at      BIGINT       NOT NULL DEFAULT (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
    `by`    TEXT         NOT NULL,
    action  VARCHAR(255) NOT NULL,
    filter  LONGTEXT     NOT NULL, -- JSON
    changed INT          NOT NULL,
    role    VARCHAR(512) NOT NULL DEFAULT (user())
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- What operators, or an address that answered 410, have stopped: the route itself, an address or a group of it. Addresses have no
-- maximum size and a key has one, so they are unique by their hash.
CREATE TABLE IF NOT EXISTS outrider_pause (
    route         VARBINARY(255) NOT NULL,
    target        BINARY(16)     NOT NULL, -- of the address; 16 bytes of its SHA-256
    address       MEDIUMBLOB     NOT NULL, -- empty: the route itself
    message_group MEDIUMBLOB     NOT NULL,
    reason        TEXT           NOT NULL,
    `by`          TEXT           NOT NULL,
    at            BIGINT         NOT NULL,
    PRIMARY KEY (route, target)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- What operators have ordered of many messages or routes, and how far it is.
CREATE TABLE IF NOT EXISTS outrider_operation (
    id          VARBINARY(255) NOT NULL PRIMARY KEY,
    kind        VARBINARY(16)  NOT NULL CHECK (kind IN ('redrive', 'skip', 'purge', 'seek')),
    subject     LONGTEXT       NOT NULL, -- JSON
    place       LONGTEXT       NOT NULL, -- JSON
    rate        DOUBLE         NOT NULL,
    `by`        TEXT           NOT NULL,
    state       VARBINARY(16)  NOT NULL CHECK (state IN ('planned', 'running', 'stopped', 'done', 'failed')),
    total       BIGINT         NOT NULL,
    done        BIGINT         NOT NULL DEFAULT 0,
    failed      BIGINT         NOT NULL DEFAULT 0,
    error       TEXT           NOT NULL DEFAULT (''),
    created_at  BIGINT         NOT NULL,
    started_at  BIGINT,
    updated_at  BIGINT         NOT NULL,
    ended_at    BIGINT,
    owner       VARBINARY(255) NOT NULL DEFAULT '',
    epoch       BIGINT         NOT NULL DEFAULT 0,
    lease_until BIGINT,
    taken_at    BIGINT,
    taken_done  BIGINT         NOT NULL DEFAULT 0,
    KEY outrider_operation_state (state, id)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- The events that a route's dedupe middleware has seen delivered.
CREATE TABLE IF NOT EXISTS outrider_dedupe (
    route      VARBINARY(255) NOT NULL,
    event_id   VARBINARY(512) NOT NULL, -- a longer one by its digest
    expires_at BIGINT         NOT NULL,
    PRIMARY KEY (route, event_id),
    KEY outrider_dedupe_expiry (expires_at)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;

-- What a queue table without columns for attempts cannot say of its rows that have failed: how often, when they are due again,
-- why. dead: the note is of a row that was given up. A row that has not failed, or was delivered, has none.
CREATE TABLE IF NOT EXISTS outrider_note (
    queue      VARBINARY(255) NOT NULL, -- the table, with its database, quoted
    `key`      VARBINARY(512) NOT NULL, -- of its row
    attempts   INT            NOT NULL,
    due_at     BIGINT,
    last_error TEXT           NOT NULL,
    dead       BOOLEAN        NOT NULL,
    noted_at   BIGINT         NOT NULL DEFAULT (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
    PRIMARY KEY (queue, `key`)
) ENGINE = InnoDB, ROW_FORMAT = DYNAMIC, CHARACTER SET = utf8mb4;
INSERT INTO outrider_migrations (version_id, is_applied) VALUES (1, true);

-- The user of `outrider run`:
-- GRANT SELECT, INSERT, UPDATE ON `outrider_route` TO 'outrider_relay'@'%';
-- GRANT SELECT, INSERT, UPDATE ON `outrider_cursor` TO 'outrider_relay'@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_instance` TO 'outrider_relay'@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_parked` TO 'outrider_relay'@'%';
-- GRANT INSERT (`by`, `action`, `filter`, `changed`) ON `outrider_audit` TO 'outrider_relay'@'%';
-- GRANT SELECT, INSERT ON `outrider_pause` TO 'outrider_relay'@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_operation` TO 'outrider_relay'@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_note` TO 'outrider_relay'@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_dedupe` TO 'outrider_relay'@'%';
-- GRANT SELECT ON `outrider_migrations` TO 'outrider_relay'@'%';
-- The user of operators' commands:
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_route` TO 'outrider_operator'@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_cursor` TO 'outrider_operator'@'%';
-- GRANT SELECT, DELETE ON `outrider_instance` TO 'outrider_operator'@'%';
-- GRANT SELECT, UPDATE, DELETE ON `outrider_parked` TO 'outrider_operator'@'%';
-- GRANT SELECT, INSERT (`by`, `action`, `filter`, `changed`) ON `outrider_audit` TO 'outrider_operator'@'%';
-- GRANT SELECT, INSERT, DELETE ON `outrider_pause` TO 'outrider_operator'@'%';
-- GRANT SELECT, INSERT, UPDATE, DELETE ON `outrider_operation` TO 'outrider_operator'@'%';
-- GRANT SELECT, DELETE ON `outrider_note` TO 'outrider_operator'@'%';
-- GRANT SELECT ON `outrider_migrations` TO 'outrider_operator'@'%';


-- state
-- Nothing: `outrider init` or `outrider run` creates the tables in the SQLite file, which has no roles.


