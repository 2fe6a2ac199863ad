package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// FlowCatalystConfig configures a [FlowCatalyst].
type FlowCatalystConfig struct {
	// Events and DispatchJobs are the tables, optionally "schema.table". Names
	// are quoted, so they are taken literally. Default: outbox_events and
	// outbox_dispatch_jobs, found by the transaction's search_path.
	Events, DispatchJobs string

	// Dialect is the database: [PostgreSQL] or [MySQL]. Default: [PostgreSQL].
	Dialect Dialect

	// IDs makes the keys. Default: a maker with a random node, shared by the
	// process. See [NewTSIDs] for when to give one.
	IDs *TSIDs
}

// FlowCatalyst writes rows into FlowCatalyst's outbox tables on PostgreSQL, MariaDB or MySQL,
// inside the application's transaction, as its own SDK does. It may be shared.
type FlowCatalyst struct {
	dialect Dialect
	tables  map[FlowCatalystKind]string // quoted
	inserts map[FlowCatalystKind]string
	ids     *TSIDs
}

// FlowCatalystKind is a kind of item, and with it the table and the endpoint.
type FlowCatalystKind string

// The kinds.
const (
	FlowCatalystEvent       FlowCatalystKind = "EVENT"        // for /api/events/batch
	FlowCatalystDispatchJob FlowCatalystKind = "DISPATCH_JOB" // for /api/dispatch/jobs/batch
)

// FlowCatalystItem is one row to be written.
type FlowCatalystItem struct {
	// Kind of the item. Default: [FlowCatalystEvent].
	Kind FlowCatalystKind

	// ID is the row's key, a TSID. Default: a new one.
	ID string

	// Group is the key whose order is kept, at most 255 characters. Empty: NULL,
	// which the platform and Outrider treat as the group "default".
	Group string

	// Payload is the JSON object for the platform's API. It is stored and sent
	// byte for byte; its fields id and type are for the receiver.
	Payload []byte
}

// processTSIDs serves clients that were given no maker.
var processTSIDs = func() *TSIDs {
	ids, _ := NewTSIDs(-1) // a random node is always right
	return ids
}()

// NewFlowCatalyst returns a client, or an error that names the setting at
// fault. It does not connect to the database.
func NewFlowCatalyst(cfg FlowCatalystConfig) (*FlowCatalyst, error) {
	c := &FlowCatalyst{dialect: cmp.Or(cfg.Dialect, PostgreSQL), tables: map[FlowCatalystKind]string{}, inserts: map[FlowCatalystKind]string{}, ids: cmp.Or(cfg.IDs, processTSIDs)}
	if c.dialect != PostgreSQL && c.dialect != MySQL {
		return nil, fmt.Errorf("outbox: FlowCatalyst client: unknown Dialect %q; use outbox.PostgreSQL or outbox.MySQL", c.dialect)
	}
	for kind, name := range map[FlowCatalystKind]string{
		FlowCatalystEvent: cmp.Or(cfg.Events, "outbox_events"), FlowCatalystDispatchJob: cmp.Or(cfg.DispatchJobs, "outbox_dispatch_jobs"),
	} {
		table, err := quoteTable(name, c.dialect)
		if err != nil {
			return nil, fmt.Errorf("outbox: FlowCatalyst client: %w", err)
		}
		c.tables[kind], c.inserts[kind] = table, "INSERT INTO "+table+
			" (id, type, message_group, payload, status, retry_count, created_at)\n"+
			"SELECT id, '"+string(kind)+"', message_group, payload, 'PENDING', 0, "+rowTime+"\n"+
			"FROM (SELECT id, message_group, payload, ordinal FROM unnest($1::text[], $2::text[], $3::text[])\n"+
			"WITH ORDINALITY AS m (id, message_group, payload, ordinal) ORDER BY ordinal) AS m"
	}
	return c, nil
}

// Publish writes the items in their order, all or none, in tx, which is a
// pgx.Tx or a *sql.Tx or nil as in [Client.Publish], and returns their ids. They are sent
// when the application commits and never were when it rolls back.
//
// Anything but a running transaction is refused with [ErrNoTransaction]. After
// any other error of the database the transaction must be rolled back.
//
// The order of a group is that of created_at, which is the server's clock: it is
// kept when the group's writers take turns, see [Lock]. In PostgreSQL created_at has no time
// zone; it is the session's, which must be that of the other writers. In MySQL it is a TIMESTAMP, which has one; where it
// keeps whole seconds, ids decide within one.
func (f *FlowCatalyst) Publish(ctx context.Context, tx any, items ...FlowCatalystItem) (ids []string, err error) {
	exec, err := transaction(current(ctx, tx), f.dialect)
	if err != nil {
		return nil, fmt.Errorf("outbox: publish: %w", err)
	}
	if f.dialect == MySQL {
		return f.publishMySQL(ctx, exec, items)
	}
	ids = make([]string, len(items))
	columns := map[FlowCatalystKind]*[3]arrayLiteral{}
	var kinds []FlowCatalystKind
	for i, item := range items {
		kind := cmp.Or(item.Kind, FlowCatalystEvent)
		if ids[i], err = f.check(kind, &item); err != nil {
			return nil, fmt.Errorf("outbox: publish: item %d of %d: %w", i+1, len(items), err)
		}
		if columns[kind] == nil {
			columns[kind] = &[3]arrayLiteral{}
			kinds = append(kinds, kind)
		}
		columns[kind][0].add(ids[i])
		columns[kind][1].addOrNull(item.Group)
		columns[kind][2].add(string(item.Payload))
	}
	for _, kind := range kinds {
		a := columns[kind]
		if err := exec(ctx, f.inserts[kind], a[0].String(), a[1].String(), a[2].String()); err != nil {
			explained := (&Client{dialect: f.dialect, table: f.tables[kind]}).explain(err)
			return nil, fmt.Errorf("outbox: publish into table %s: %w", f.tables[kind], explained)
		}
	}
	return ids, nil
}

// check refuses what the table or the platform would, and returns the id.
func (f *FlowCatalyst) check(kind FlowCatalystKind, item *FlowCatalystItem) (string, error) {
	if f.tables[kind] == "" {
		return "", fmt.Errorf("kind %s is none of EVENT and DISPATCH_JOB", shown(string(kind)))
	}
	id := item.ID
	if id == "" {
		var err error
		if id, err = f.ids.Next(); err != nil {
			return "", err
		}
	} else if err := CheckTSID(id); err != nil {
		return "", fmt.Errorf("id %s %w", shown(id), err)
	}
	if n := utf8.RuneCountInString(item.Group); n > 255 {
		return "", fmt.Errorf("group: %d characters, the column has room for 255", n)
	}
	if !utf8.ValidString(item.Group) || strings.ContainsRune(item.Group, 0) {
		return "", errors.New("group: is not text that a database can store")
	}
	if len(item.Payload) > MaxPayloadBytes {
		return "", fmt.Errorf("payload: is %d bytes, the limit is %d; store large content elsewhere and publish where it is",
			len(item.Payload), MaxPayloadBytes)
	}
	if err := CheckJSON(item.Payload); err != nil {
		return "", fmt.Errorf("payload: %w", err)
	}
	return id, nil
}
