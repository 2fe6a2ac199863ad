package assembly

import (
	"slices"

	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/sqlite/queuetable"
	"github.com/outriderhq/outrider/config"
)

// openQueue opens tables whose rows carry a status.
func (t sqliteTable) openQueue() (Feed, error) {
	cfg := t.queue()
	cfg.Path, cfg.Logger = t.Path, t.log
	location := t.Path // beside the source
	if !t.Config.State.URL.IsZero() {
		location = t.Config.State.URL.Reveal()
	}
	_, postgres := postgresState(t.Builder, location)
	_, mysql := mysqlState(t.Builder, location)
	if !postgres && !mysql {
		cfg.Fenced = sqliteKey(location) == sqliteKey(t.Path)
	}
	queue, err := queuetable.New(cfg)
	if err != nil {
		return Feed{}, err
	}
	f := Feed{Queue: queue, poll: t.Poll, claims: claimsOf(t.Claims), tables: len(cfg.Tables), batch: queue.SetBatch}
	if preset := t.Preset(); preset != nil {
		f.together = preset.Defaults.Together
	}
	return f, nil
}

// queue describes the tables of a queue, without where they are.
func (t sqliteTable) queue() queuetable.Config {
	cfg := queuetable.Config{Batch: t.Poll.Batch, Timeout: t.Claims.Timeout.Std(), MaxRow: int64(t.MaxRow)}
	cfg.Layout, cfg.Tables = queueOf(t.Preset(), t.Queue, string(t.Table), t.Tables, t.Deletes(), t.Retention != nil)
	return cfg
}

// queueOf is the layout of a queue, and its tables: those of a preset, or the one that the configuration describes. Rows are deleted when
// they are delivered, or when they are old.
func queueOf(preset *layout.Preset, q *config.Queue, table string, names config.Queues, deletes, old bool) (of layout.Queue, tables []layout.Table) {
	if preset != nil {
		of, tables = *preset.Queue, slices.Clone(preset.Queue.Tables)
		for i := range tables {
			if len(tables) == 1 {
				tables[i].Name = table
			} else {
				tables[i].Name = names.Of(tables[i])
			}
		}
		of.DoneIsDeleted, of.OldIsDeleted = deletes, old
		return of, tables
	}
	return layout.Queue{
		Columns: layout.Columns{
			Key: q.Key, Type: q.Type, Payload: q.Payload, Status: q.Status, Created: q.Created, Claimed: q.Claimed,
			Group: q.Group, Attempts: q.Attempts, NextAttempt: q.NextAttempt, Done: q.Done, Error: q.Error,
			AggregateType: q.AggregateType, AggregateID: q.AggregateID, Tenant: q.Tenant, Headers: q.Headers,
		},
		Statuses:     layout.Statuses(q.Statuses),
		DefaultGroup: q.DefaultGroup, TypeInPayload: q.TypeInPayload, DoneIsDeleted: deletes, OldIsDeleted: old,
	}, []layout.Table{{Name: table}}
}
