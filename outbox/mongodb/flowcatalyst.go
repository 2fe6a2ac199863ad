// Package mongodb writes messages into MongoDB, inside the application's transaction. It is a package of its own, so that
// who publishes into a SQL database does not build MongoDB's driver.
package mongodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/outriderhq/outrider/outbox"
)

// Config says where a [FlowCatalyst] client writes.
type Config struct {
	// Database is the one that holds the collections. Required. Its client is that of the application's sessions.
	Database *mongo.Database

	// Events and DispatchJobs are the collections. Default: outbox_events and outbox_dispatch_jobs.
	Events, DispatchJobs string

	// IDs makes the keys. Default: a maker with a random node. See [outbox.NewTSIDs] for when to give one.
	IDs *outbox.TSIDs

	// WithoutTransaction lets Publish write outside of a transaction, as a server that is no member of a replica set
	// makes necessary: a crash between the data and the message then loses the message, or announces what never happened.
	WithoutTransaction bool
}

// FlowCatalyst writes documents into FlowCatalyst's collections, inside the application's session, as its own SDK
// does. It may be shared.
type FlowCatalyst struct {
	collections map[outbox.FlowCatalystKind]*mongo.Collection
	ids         *outbox.TSIDs
	loose       bool

	mu     sync.Mutex
	last   time.Time // of the last document
	lastID string
}

// NewFlowCatalyst returns a client, or an error that names the setting at fault. It does not connect to the database.
func NewFlowCatalyst(cfg Config) (*FlowCatalyst, error) {
	if cfg.Database == nil {
		return nil, errors.New("outbox: FlowCatalyst client: Database is nil")
	}
	c := &FlowCatalyst{ids: cfg.IDs, loose: cfg.WithoutTransaction, collections: map[outbox.FlowCatalystKind]*mongo.Collection{
		outbox.FlowCatalystEvent:       cfg.Database.Collection(cmp.Or(cfg.Events, "outbox_events")),
		outbox.FlowCatalystDispatchJob: cfg.Database.Collection(cmp.Or(cfg.DispatchJobs, "outbox_dispatch_jobs")),
	}}
	if c.ids == nil {
		ids, err := outbox.NewTSIDs(-1)
		if err != nil {
			return nil, err
		}
		c.ids = ids
	}
	return c, nil
}

// errNoTransaction is [outbox.ErrNoTransaction] for those who have a session in place of it.
var errNoTransaction = fmt.Errorf("the context carries no session with a running transaction: %w", outbox.ErrNoTransaction)

// Publish writes the items in their order, in the transaction of the session that ctx carries (mongo.NewSessionContext, or the
// context that WithTransaction gives), and returns their ids. They are sent when the application commits and never were when it aborts.
//
// Without such a transaction the error is [outbox.ErrNoTransaction], unless Config.WithoutTransaction is set. After any other error of the
// database the transaction must be aborted.
//
// The order of a group is that of createdAt, which is this process's clock, and of the ids. It is kept when the group's writers
// take turns, as transactions do that change the same document, and the clocks of their hosts agree.
func (f *FlowCatalyst) Publish(ctx context.Context, items ...outbox.FlowCatalystItem) (ids []string, err error) {
	if s := mongo.SessionFromContext(ctx); !f.loose && (s == nil || !s.TransactionRunning()) {
		return nil, fmt.Errorf("outbox: publish: %w", errNoTransaction)
	}
	ids = make([]string, len(items))
	documents := map[outbox.FlowCatalystKind][]any{}
	var kinds []outbox.FlowCatalystKind
	for i := range items {
		kind := cmp.Or(items[i].Kind, outbox.FlowCatalystEvent)
		id, at, err := f.check(kind, &items[i])
		if err != nil {
			return nil, fmt.Errorf("outbox: publish: item %d of %d: %w", i+1, len(items), err)
		}
		if documents[kind] == nil {
			kinds = append(kinds, kind)
		}
		ids[i] = id
		documents[kind] = append(documents[kind], document(id, kind, &items[i], at))
	}
	for _, kind := range kinds {
		if _, err := f.collections[kind].InsertMany(ctx, documents[kind]); err != nil {
			return nil, fmt.Errorf("outbox: publish into collection %s: %w", f.collections[kind].Name(), err)
		}
	}
	return ids, nil
}

// document is an item field by field as FlowCatalyst writes it.
func document(id string, kind outbox.FlowCatalystKind, item *outbox.FlowCatalystItem, now time.Time) bson.D {
	var group any
	if item.Group != "" {
		group = item.Group
	}
	return bson.D{{Key: "_id", Value: id}, {Key: "type", Value: string(kind)}, {Key: "messageGroup", Value: group},
		{Key: "payload", Value: string(item.Payload)}, {Key: "status", Value: "PENDING"}, {Key: "retryCount", Value: int32(0)},
		{Key: "createdAt", Value: now}, {Key: "processedAt", Value: nil}, {Key: "errorMessage", Value: nil}}
}

// place is the id and the time of the next document. Time never goes back in a process, and it goes on where the id comes before that of the document
// before: documents are ordered by both.
func (f *FlowCatalyst) place(id string) (string, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == "" {
		var err error
		if id, err = f.ids.Next(); err != nil {
			return "", time.Time{}, err
		}
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	switch {
	case now.After(f.last):
		f.last = now
	case id <= f.lastID:
		f.last = f.last.Add(time.Millisecond)
	}
	f.lastID = id
	return id, f.last, nil
}

// check refuses what the platform would, and returns the id and the time of the document.
func (f *FlowCatalyst) check(kind outbox.FlowCatalystKind, item *outbox.FlowCatalystItem) (id string, at time.Time, err error) {
	if f.collections[kind] == nil {
		return "", at, errors.New("its kind is none of EVENT and DISPATCH_JOB")
	}
	if !utf8.ValidString(item.Group) {
		return "", at, errors.New("group: is not valid UTF-8")
	}
	if len(item.Payload) > outbox.MaxPayloadBytes {
		return "", at, fmt.Errorf("payload: is %d bytes, the limit is %d; store large content elsewhere and publish where it is",
			len(item.Payload), outbox.MaxPayloadBytes)
	}
	if err := outbox.CheckJSON(item.Payload); err != nil {
		return "", at, fmt.Errorf("payload: %w", err)
	}
	if item.ID != "" {
		if err := outbox.CheckTSID(item.ID); err != nil {
			return "", at, fmt.Errorf("id %q %w", item.ID, err)
		}
	}
	return f.place(item.ID)
}
