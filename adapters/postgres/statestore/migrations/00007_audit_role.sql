-- +goose Up

-- Which database role a command came from, whatever its author calls himself. Who
-- writes a record chooses neither this nor its time, see docs/security.md. Empty: a
-- record from before.
ALTER TABLE outrider_audit ADD COLUMN role text NOT NULL DEFAULT '';
ALTER TABLE outrider_audit ALTER COLUMN role SET DEFAULT session_user;

-- +goose Down
ALTER TABLE outrider_audit DROP COLUMN role;
