-- +goose Up

-- What was written, or found and carried out, of rows in another system's table of progress: whatever is different there
-- was written by others. A position below 0: nothing yet.
CREATE TABLE outrider_progress (
    route          text   NOT NULL PRIMARY KEY,
    progress_table text   NOT NULL, -- as in SQL
    topic          text   NOT NULL,
    publisher      text   NOT NULL,
    position       bigint NOT NULL,
    status         text   NOT NULL
) WITH (fillfactor = 70);

-- +goose Down
DROP TABLE outrider_progress;
