-- +goose Up

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

-- +goose Down
DROP TABLE outrider_dedupe;
