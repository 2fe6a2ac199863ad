-- +goose Up

-- What others know of an instance beside its lease: when it was last heard of,
-- and which routes it runs, so that everybody finds the same share for each.
ALTER TABLE outrider_instance
    ADD COLUMN renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD COLUMN routes     jsonb       NOT NULL DEFAULT '[]';

-- When the owner took the lane.
ALTER TABLE outrider_cursor ADD COLUMN acquired_at timestamptz;

-- +goose Down
ALTER TABLE outrider_cursor DROP COLUMN acquired_at;
ALTER TABLE outrider_instance DROP COLUMN routes, DROP COLUMN renewed_at;
