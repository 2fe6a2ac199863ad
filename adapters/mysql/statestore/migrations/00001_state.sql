-- +goose NO TRANSACTION
-- +goose Up

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

-- +goose Down
DROP TABLE IF EXISTS outrider_note, outrider_dedupe, outrider_operation, outrider_pause, outrider_audit, outrider_parked, outrider_instance, outrider_cursor, outrider_route;
