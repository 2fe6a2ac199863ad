package queuetable

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/adapters/mongodb/internal/mdb"
)

// Check implements [adapters.Queue]. An index without which order cannot be kept is an error; others make claims dear, and are only warned about.
func (q *Queue) Check(ctx context.Context) error {
	if _, err := q.server.Database(ctx); err != nil {
		return fmt.Errorf("mongodb queue: %w", err)
	}
	var errs []error
	for _, t := range q.tables {
		missing, err := t.inspect(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("mongodb queue: %w", mdb.Plainly(err)))
			continue
		}
		for _, i := range missing {
			if i.vital {
				errs = append(errs, fmt.Errorf("mongodb queue: collection %s has no index %s, along which documents are claimed in their order; create it with `outrider init`", t.Name, i.name))
				continue
			}
			q.log.WarnContext(ctx, "an index is missing: looking for documents reads more than it needs to; `outrider init` creates it", "table", t.Name, "index", i.name)
		}
	}
	return errors.Join(errs...)
}

// Examine implements [adapters.Examiner].
func (q *Queue) Examine(ctx context.Context) []adapters.Finding {
	db, err := q.server.Database(ctx)
	if err != nil {
		f := adapters.Finding{Level: adapters.LevelBroken, Subject: "server", Text: err.Error()}
		if e, ok := errors.AsType[*mdb.ConnectFailure](err); ok {
			f.Text, f.Fix = e.Text, e.Fix
		}
		return []adapters.Finding{f}
	}
	var build struct {
		Version string `bson:"version"`
	}
	f := []adapters.Finding{{Subject: "server version", Text: "unknown", Level: adapters.LevelUnknown}}
	if err := db.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err == nil {
		f[0] = adapters.Finding{Subject: "server version", Text: "MongoDB " + build.Version}
	}
	if q.server.Members {
		f = append(f, adapters.Finding{Subject: "replica set", Text: "claims are acknowledged by a majority"})
	} else {
		f = append(f, adapters.Finding{Level: adapters.LevelWarning, Subject: "replica set",
			Text: "none: this server has no transactions, so a message and the data that it is about are written apart, and there are no change streams",
			Fix:  "make the server a replica set, of one member if need be"})
	}
	for _, t := range q.tables {
		f = append(f, t.examine(ctx)...)
	}
	return f
}

func (t *table) examine(ctx context.Context) []adapters.Finding {
	subject := "collection " + t.Name
	missing, err := t.inspect(ctx)
	if err != nil {
		return adapters.FindingsOf(subject, mdb.Plainly(err))
	}
	f := adapters.Finding{Subject: subject + ": indexes", Text: "they find unfinished documents by group and by age, and dead ones"}
	if len(missing) > 0 {
		names := make([]string, len(missing))
		for i, m := range missing {
			names[i] = m.name
			if f.Level = adapters.LevelWarning; m.vital {
				f.Level = adapters.LevelBroken
				break
			}
		}
		f.Text, f.Fix = strings.Join(names, ", ")+": missing, or made for another layout", "`outrider init` creates them"
	}
	return []adapters.Finding{f, t.examineGroups(ctx), t.examineStuck(ctx)}
}

func unknown(subject string, err error) adapters.Finding {
	return adapters.Finding{Level: adapters.LevelUnknown, Subject: subject, Text: mdb.Plainly(err).Error()}
}

// examineGroups looks for documents whose group is no text.
func (t *table) examineGroups(ctx context.Context) adapters.Finding {
	subject := "collection " + t.Name + ": groups"
	n, err := t.count(ctx, bson.D{t.q.unfinished(), {Key: t.q.fields.Group, Value: notText}})
	switch {
	case err != nil:
		return unknown(subject, err)
	case n > 0:
		return adapters.Finding{Level: adapters.LevelBroken, Subject: subject, Text: fmt.Sprintf("%d unfinished documents have a %s that is no text: they are given up when they are claimed", n, t.q.fields.Group),
			Fix: "have their writers write text, or no group"}
	}
	return adapters.Finding{Subject: subject, Text: "of unfinished documents they are text, or missing"}
}

// examineStuck counts documents that are marked as being processed for longer than a delivery takes.
func (t *table) examineStuck(ctx context.Context) adapters.Finding {
	subject := "collection " + t.Name + ": documents being processed"
	n, err := t.count(ctx, bson.D{{Key: t.q.fields.Status, Value: t.q.layout.Statuses.Processing},
		{Key: t.q.fields.Claimed, Value: bson.D{{Key: "$lt", Value: date(t.q.server.Clock().Add(-t.q.timeout))}}}})
	undated := 0
	if err == nil {
		undated, err = t.count(ctx, bson.D{{Key: t.q.fields.Status, Value: t.q.layout.Statuses.Processing},
			{Key: t.q.fields.Claimed, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$type", Value: "date"}}}}}})
	}
	if err != nil {
		return unknown(subject, err)
	}
	stuck := queue.Stuck{Subject: subject, Rows: "documents", Claimed: t.q.fields.Claimed, Timeout: t.q.timeout, Overdue: n, Undated: undated}
	return stuck.Finding()
}
