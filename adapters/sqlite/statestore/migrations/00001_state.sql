-- +goose Up
-- Times are microseconds since 1970.
CREATE TABLE outrider_cursor (
    route           TEXT    NOT NULL,
    slot            INTEGER NOT NULL,
    position        INTEGER NOT NULL DEFAULT 0,
    snapshot        TEXT    NOT NULL DEFAULT '',
    window_snapshot TEXT    NOT NULL DEFAULT '',
    paged           INTEGER NOT NULL DEFAULT 0,
    base            INTEGER NOT NULL DEFAULT 0,
    beyond          TEXT    NOT NULL DEFAULT '[]', -- a JSON array of positions
    next_seq        INTEGER NOT NULL DEFAULT 1,
    epoch           INTEGER NOT NULL DEFAULT 0,
    owner           TEXT,
    cluster         TEXT    NOT NULL DEFAULT '',
    commands        INTEGER NOT NULL DEFAULT 0,
    updated_at      INTEGER, -- of the last settle; NULL: never settled
    PRIMARY KEY (route, slot)
) WITHOUT ROWID;

CREATE TABLE outrider_instance (
    id          TEXT    PRIMARY KEY,
    lease_until INTEGER NOT NULL,
    joined_at   INTEGER NOT NULL
);

-- Payloads make the rows large: an ordinary table keeps the key's index small.
CREATE TABLE outrider_parked (
    route           TEXT    NOT NULL,
    slot            INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    message_group   TEXT, -- NULL: the message parks alone
    status          TEXT    NOT NULL CHECK (status IN ('retrying', 'waiting', 'held', 'dead')),
    attempts        INTEGER NOT NULL,
    next_attempt_at INTEGER,
    last_error      TEXT    NOT NULL,
    event_id        TEXT    NOT NULL,
    event_type      TEXT    NOT NULL,
    position        INTEGER NOT NULL,
    metadata        TEXT    NOT NULL,
    payload         BLOB    NOT NULL,
    parked_at       INTEGER NOT NULL,
    PRIMARY KEY (route, slot, seq)
);

-- Dead messages may be many and are kept for long; what keeps a lane's groups
-- from flowing is found without meeting them.
CREATE INDEX outrider_parked_queue ON outrider_parked (route, slot, message_group, seq, status, next_attempt_at)
    WHERE status <> 'dead';
CREATE INDEX outrider_parked_dead ON outrider_parked (route, slot, seq) WHERE status = 'dead';
CREATE INDEX outrider_parked_event ON outrider_parked (event_id);

CREATE TABLE outrider_audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    by      TEXT    NOT NULL,
    action  TEXT    NOT NULL,
    filter  TEXT    NOT NULL,
    changed INTEGER NOT NULL
);

-- +goose Down
DROP TABLE outrider_audit;
DROP TABLE outrider_parked;
DROP TABLE outrider_instance;
DROP TABLE outrider_cursor;
