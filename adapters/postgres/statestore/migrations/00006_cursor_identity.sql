-- +goose Up

-- anchor: the row at the cursor's position, by which a database that was put back
-- to an earlier state is known when it has caught up. Empty: not known.
-- revision: counts settles, so that an owner sees that the row itself was put back.
-- former: the cluster from which a rebase took the cursor.
ALTER TABLE outrider_cursor
    ADD COLUMN anchor   text   NOT NULL DEFAULT '',
    ADD COLUMN revision bigint NOT NULL DEFAULT 0,
    ADD COLUMN former   text   NOT NULL DEFAULT '';

-- Names of SQLite's tables did not say of which file.
UPDATE outrider_cursor SET source = '' WHERE source LIKE 'sqlite/%';

-- +goose Down
ALTER TABLE outrider_cursor DROP COLUMN former, DROP COLUMN revision, DROP COLUMN anchor;
