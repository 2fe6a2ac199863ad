-- +goose Up
-- What operators, or an address that answered 410, have stopped. The empty
-- address is the route itself.
CREATE TABLE outrider_pause (
    route   TEXT    NOT NULL,
    address TEXT    NOT NULL DEFAULT '',
    reason  TEXT    NOT NULL,
    by      TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (route, address)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE outrider_pause;
