-- +goose Up

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

-- +goose Down
DROP TABLE outrider_audit, outrider_parked, outrider_instance, outrider_cursor;
