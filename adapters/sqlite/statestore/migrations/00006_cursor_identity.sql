-- +goose Up

-- anchor: the row at the cursor's position, by which a file that was replaced by an
-- older copy is known when it has caught up. Empty: not known.
-- revision: counts settles, so that an owner sees that the row itself was put back.
-- former: the cluster from which a rebase took the cursor.
ALTER TABLE outrider_cursor ADD COLUMN anchor TEXT NOT NULL DEFAULT '';
ALTER TABLE outrider_cursor ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outrider_cursor ADD COLUMN former TEXT NOT NULL DEFAULT '';

-- Names of SQLite's tables did not say of which file.
UPDATE outrider_cursor SET source = '' WHERE source LIKE 'sqlite/%';

-- What a file is known by, wherever it is: its tables are named after it.
CREATE TABLE IF NOT EXISTS outrider_file (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id  TEXT NOT NULL
);
INSERT INTO outrider_file (one, id) VALUES (1, lower(hex(randomblob(16)))) ON CONFLICT DO NOTHING;

-- +goose Down
ALTER TABLE outrider_cursor DROP COLUMN former;
ALTER TABLE outrider_cursor DROP COLUMN revision;
ALTER TABLE outrider_cursor DROP COLUMN anchor;
