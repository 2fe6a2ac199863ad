-- +goose Up

-- The table that the cursor belongs to, so that retention knows whom to wait for.
-- Empty: unknown, and everybody's retention waits for it.
ALTER TABLE outrider_cursor ADD COLUMN source TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE outrider_cursor DROP COLUMN source;
