-- +goose Up
-- The events that a route's dedupe middleware has seen delivered. Times are
-- microseconds since 1970.
CREATE TABLE outrider_dedupe (
    route      TEXT    NOT NULL,
    event_id   TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (route, event_id)
) WITHOUT ROWID;
CREATE INDEX outrider_dedupe_expiry ON outrider_dedupe (expires_at);

-- +goose Down
DROP TABLE outrider_dedupe;
