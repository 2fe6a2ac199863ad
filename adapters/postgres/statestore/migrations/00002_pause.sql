-- +goose Up

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

-- +goose Down
DROP TABLE outrider_pause;
