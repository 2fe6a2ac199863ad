-- +goose Up

-- When the instance was last heard of, and which routes it runs, for status. A
-- JSON array of objects.
ALTER TABLE outrider_instance ADD COLUMN renewed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE outrider_instance ADD COLUMN routes TEXT NOT NULL DEFAULT '[]';

-- When the owner took the lane.
ALTER TABLE outrider_cursor ADD COLUMN acquired_at INTEGER;

-- +goose Down
ALTER TABLE outrider_cursor DROP COLUMN acquired_at;
ALTER TABLE outrider_instance DROP COLUMN routes;
ALTER TABLE outrider_instance DROP COLUMN renewed_at;
