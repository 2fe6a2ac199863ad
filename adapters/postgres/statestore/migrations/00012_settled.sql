-- +goose Up

-- Where settles write the progress of a lane while an old snapshot keeps the dead versions of its cursor row: a lookup of that
-- row, and the check of its primary key, read all of them. The key of this row grows (part), so a lookup from its end and the check
-- read a few. It holds for the epoch of the cursor row, if its revision is not lower. The next epoch folds it into the cursor row.
CREATE TABLE outrider_settled (
    route           text        NOT NULL,
    slot            smallint    NOT NULL,
    epoch           bigint      NOT NULL,
    part            bigint      NOT NULL,
    position        bigint      NOT NULL,
    snapshot        text        NOT NULL,
    window_snapshot text        NOT NULL,
    paged           bigint      NOT NULL,
    base            bigint      NOT NULL,
    beyond          bigint[]    NOT NULL,
    next_seq        bigint      NOT NULL,
    cluster         text        NOT NULL,
    source          text        NOT NULL,
    anchor          text        NOT NULL,
    revision        bigint      NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (route, slot, epoch, part)
) WITH (fillfactor = 10);

-- Whoever takes a lane, also a build that does not know outrider_settled, gets what was settled there, and the settles of the
-- epoch before find no row any more. A move has no owner and sets the cursor itself. The rights are those of the tables' owner, because the
-- roles of such builds have none. The name is put together because `outrider init` writes schemas before those that it finds.
-- +goose StatementBegin
CREATE FUNCTION outrider_fold() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s record;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.epoch = OLD.epoch THEN
        RETURN NEW;
    END IF;
    FOR s IN EXECUTE format('DELETE FROM %I.%I WHERE route = $1 AND slot = $2 AND epoch = $3 RETURNING *', TG_TABLE_SCHEMA, 'outrider' || '_settled')
        USING OLD.route, OLD.slot, OLD.epoch
    LOOP
        CONTINUE WHEN TG_OP = 'DELETE' OR s.revision < NEW.revision;
        NEW.revision := s.revision;
        NEW.next_seq := greatest(NEW.next_seq, s.next_seq);
        CONTINUE WHEN NEW.owner IS NULL;
        NEW.position := s.position;
        NEW.snapshot := s.snapshot;
        NEW.window_snapshot := s.window_snapshot;
        NEW.paged := s.paged;
        NEW.base := s.base;
        NEW.beyond := s.beyond;
        NEW.cluster := s.cluster;
        NEW.source := s.source;
        NEW.anchor := s.anchor;
        NEW.updated_at := s.updated_at;
    END LOOP;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER fold BEFORE UPDATE OF epoch OR DELETE ON outrider_cursor FOR EACH ROW EXECUTE FUNCTION outrider_fold();

-- +goose Down
DROP TRIGGER fold ON outrider_cursor;
DROP FUNCTION outrider_fold();
DROP TABLE outrider_settled;
