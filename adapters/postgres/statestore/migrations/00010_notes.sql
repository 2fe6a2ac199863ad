-- +goose Up

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

-- +goose Down
DROP TABLE outrider_note;
