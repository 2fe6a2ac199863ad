-- +goose Up
-- What operators have ordered of many messages or routes, and how far it is.
CREATE TABLE outrider_operation (
    id          TEXT    PRIMARY KEY,
    kind        TEXT    NOT NULL CHECK (kind IN ('redrive', 'skip', 'purge', 'seek')),
    subject     TEXT    NOT NULL, -- JSON
    place       TEXT    NOT NULL, -- JSON
    rate        REAL    NOT NULL,
    by          TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('planned', 'running', 'stopped', 'done', 'failed')),
    total       INTEGER NOT NULL,
    done        INTEGER NOT NULL DEFAULT 0,
    failed      INTEGER NOT NULL DEFAULT 0,
    error       TEXT    NOT NULL DEFAULT '',
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    updated_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    owner       TEXT    NOT NULL DEFAULT '',
    epoch       INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,
    taken_at    INTEGER,
    taken_done  INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX outrider_operation_active ON outrider_operation (id) WHERE state IN ('planned', 'running');

-- A paused group. Its address is one that no message has, so that a relay of an earlier
-- version, which knows of no groups, takes it neither for a pause of the route nor of
-- an address that is used.
ALTER TABLE outrider_pause ADD COLUMN message_group TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE outrider_pause DROP COLUMN message_group;
DROP TABLE outrider_operation;
