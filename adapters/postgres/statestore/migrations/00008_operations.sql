-- +goose Up

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

-- +goose Down
ALTER TABLE outrider_pause DROP COLUMN message_group;
DROP TABLE outrider_operation;
