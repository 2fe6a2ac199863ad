-- +goose Up

-- tries: the latest failed attempts, a JSON array. failure: names the group of messages that failed
-- in the same way, and begins with bits of the route's name, so that the groups of a route lie together. NULL: nothing
-- failed, or it was parked by an earlier version.
ALTER TABLE outrider_parked ADD COLUMN tries TEXT NOT NULL DEFAULT '[]';
ALTER TABLE outrider_parked ADD COLUMN failure INTEGER;

CREATE INDEX outrider_parked_failure ON outrider_parked (failure, slot, seq, status, parked_at) WHERE failure IS NOT NULL;
CREATE INDEX outrider_parked_unnamed ON outrider_parked (route, slot, seq) WHERE failure IS NULL AND last_error <> '';

-- +goose Down
DROP INDEX outrider_parked_unnamed;
DROP INDEX outrider_parked_failure;
ALTER TABLE outrider_parked DROP COLUMN failure;
ALTER TABLE outrider_parked DROP COLUMN tries;
