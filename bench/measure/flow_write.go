package measure

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/outriderhq/outrider/outbox"
)

// Write commits all messages, by several writers.
func (f *Flow) Write(ctx context.Context, database string) error {
	ids, err := outbox.NewTSIDs(-1)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for w := range writersOf(f.groups) {
		g.Go(func() error {
			db, err := pgx.Connect(ctx, database)
			if err != nil {
				return err
			}
			return errors.Join(f.writeSome(ctx, db, w, ids), db.Close(context.WithoutCancel(ctx)))
		})
	}
	return g.Wait()
}

// writeSome commits the messages of one writer, at random moments within equal
// intervals. A late writer catches up.
func (f *Flow) writeSome(ctx context.Context, db *pgx.Conn, writer int, ids *outbox.TSIDs) error {
	writers := writersOf(f.groups)
	rows := f.rowsOf(writer)
	source := NewEvents(writer, f.groups, f.size)
	begin := time.Now()
	for from := 0; from < rows; from += f.Per {
		if f.Rate > 0 {
			interval := time.Duration(f.Per*writers) * time.Second / time.Duration(f.Rate)
			due := begin.Add(time.Duration(from/f.Per)*interval + rand.N(interval)) //nolint:gosec // no secret
			if err := Until(ctx, due); err != nil {
				return err
			}
		}
		if err := f.commit(ctx, db, source, ids, writer, from, min(from+f.Per, rows)); err != nil {
			return err
		}
	}
	return nil
}

// commit writes a writer's messages [from, to) in a transaction.
func (f *Flow) commit(ctx context.Context, db *pgx.Conn, source *Events, ids *outbox.TSIDs, writer, from, to int) error {
	keys, groups, payloads := make([]string, to-from), make([]string, to-from), make([]string, to-from)
	for i := range keys {
		n := f.number(writer, from+i)
		group, payload := source.Event(n)
		f.hashes[n].Store(f.hash(payload))
		groups[i], payloads[i] = group, string(payload)
		var err error
		if keys[i], err = ids.Next(); err != nil {
			return err
		}
	}
	if _, err := db.Exec(ctx, f.Insert, keys, groups, payloads); err != nil {
		return err
	}
	now := f.now()
	for i := range keys {
		f.committed[f.number(writer, from+i)].Store(now)
	}
	return nil
}

// Until waits for a moment.
func Until(ctx context.Context, moment time.Time) error {
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
