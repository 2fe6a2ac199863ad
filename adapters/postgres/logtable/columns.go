package logtable

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
)

// Layout is the shape of a table that a [Source] reads.
type Layout string

// LayoutCustom is an append-only table of any shape, described by [Columns]. Other layouts are
// presets of package layout.
const LayoutCustom Layout = "custom"

// Columns says in which column of a table what is found.
type Columns = layout.LogColumns

// Metadata names the keys of a row's headers (Watermill's metadata) that hold
// what the table has no column for. Outrider's own keys (outrider_type and so
// on, see package outbox) are looked for as well, after these.
type Metadata struct {
	Type          string
	Group         string
	AggregateType string
	AggregateID   string
	Tenant        string
}

// role is the meaning of a column. The first ones are columns of the statement's
// result, in the order of the constants fetchPosition and so on.
type role int

const (
	rolePosition role = iota
	roleID
	roleType
	roleGroup
	roleAggregateType
	roleAggregateID
	roleTenant
	roleTags
	roleHeaders
	rolePayload
	roleBytes // the same payload, when it is bytea
	roleOccurredAt
	roleCreatedAt
	roleXID
	roles
)

// roleKeys are the roles' keys in a configuration.
var roleKeys = [roles]string{
	"position", "id", "type", "group", "aggregate_type", "aggregate_id", "tenant", "tags", "headers",
	"payload", "payload", "occurred_at", "created_at", "xid",
}

// mapping says how the rows of a table become outbox rows.
type mapping struct {
	layout    Layout
	preset    *layout.Log // nil: LayoutCustom
	table     pgx.Identifier
	columns   [roles]string   // names; "" where there is none
	extra     []layout.Header // further columns that travel as headers
	constants [roles]string   // what "=text" says
	keys      [roles]string   // of the headers, in addition to Outrider's own
	typ       string          // of rows that say none
	offsets   pgx.Identifier  // watermill-sql's table of offsets; nil: the one in the schema of the table
	group     string          // consumer group in it
	array     atomic.Bool     // the column of tags is an array; found out when connecting
	json      atomic.Bool     // the payload's column is json or jsonb; found out when connecting
	maxRow    int64           // bytes of payload that are read
}

// newMapping checks what can be checked without the table.
func newMapping(cfg *Config) (*mapping, error) {
	m := &mapping{layout: cfg.Layout, maxRow: cmp.Or(cfg.MaxRow, adapters.DefaultMaxRow)}
	if p := layout.Find(string(cfg.Layout)); p != nil {
		m.preset = p.Log
	}
	var preset Columns
	switch {
	case m.preset == nil && cfg.Layout != LayoutCustom:
		return nil, fmt.Errorf("layout %q is not an append-only table: use layout custom, or the name of a preset of one", cfg.Layout)
	case m.preset != nil && !m.preset.Captured && cfg.Columns != Columns{}:
		return nil, fmt.Errorf("layout %s has columns of its own; use layout custom for a table with others", cfg.Layout)
	case m.preset != nil:
		preset = m.preset.Columns
	case cfg.Table == "":
		return nil, errors.New("no table is given")
	}
	if !pg.PlainText(cfg.Topic) {
		return nil, fmt.Errorf("topic %q has a control character, or is not valid text", cfg.Topic)
	}
	var err error
	if m.table, err = m.mappedTable(cfg); err != nil {
		return nil, err
	}
	if cfg.Offsets != "" {
		if m.offsets, err = pg.ParseTable(cfg.Offsets); err != nil {
			return nil, fmt.Errorf("offsets: %w", err)
		}
	}
	m.group = cfg.Group
	m.typ = cfg.Topic
	if m.preset != nil && m.preset.TopicPrefix != "" {
		m.typ = cmp.Or(cfg.Topic, strings.TrimPrefix(m.table[len(m.table)-1], m.preset.TopicPrefix))
	}
	m.extra = cfg.Headers
	m.columns = byRole(&preset)
	for r, name := range byRole(&cfg.Columns) {
		if name != "" {
			m.columns[r] = name
		}
	}
	k := cfg.Metadata
	m.keys[roleType], m.keys[roleGroup], m.keys[roleTenant] = k.Type, k.Group, k.Tenant
	m.keys[roleAggregateType], m.keys[roleAggregateID] = k.AggregateType, k.AggregateID
	return m, m.checkColumns()
}

// byRole returns the names of columns by their roles.
func byRole(c *Columns) [roles]string {
	return [roles]string{c.Position, c.ID, c.Type, c.Group, c.AggregateType, c.AggregateID, c.Tenant,
		c.Tags, c.Headers, c.Payload, c.Payload, c.OccurredAt, c.CreatedAt, c.XID}
}

// captured reports whether the source system reads the log of the database instead of the table.
func (m *mapping) captured() bool { return m.preset != nil && m.preset.Captured }

// mappedTable names the table: as it is given, or after the topic.
func (m *mapping) mappedTable(cfg *Config) (pgx.Identifier, error) {
	switch {
	case cfg.Table != "":
		return pg.ParseTable(cfg.Table)
	case cfg.Topic == "":
		return nil, errors.New("neither a topic nor a table is given")
	case len(m.preset.TopicPrefix+cfg.Topic) > pg.LongestName:
		// PostgreSQL cuts such a name; so two topics may share a table.
		return nil, fmt.Errorf("topic %q: the name of its table is longer than the %d bytes that PostgreSQL keeps of it; give the table's name",
			cfg.Topic, pg.LongestName)
	}
	return pgx.Identifier{m.preset.TopicPrefix + cfg.Topic}, nil
}

// checkColumns takes constants apart and reports what is missing.
func (m *mapping) checkColumns() error {
	var problems []error
	for r := range roles {
		text, constant := strings.CutPrefix(m.columns[r], "=")
		if !pg.PlainText(m.columns[r]) {
			problems = append(problems, fmt.Errorf("column %s: %q has a control character, or is not valid text", roleKeys[r], m.columns[r]))
		}
		if !constant {
			continue
		}
		if r != roleType && r != roleAggregateType && r != roleTenant {
			problems = append(problems, fmt.Errorf("column %s: %q is a constant, but it differs from row to row; name a column", roleKeys[r], m.columns[r]))
			continue
		}
		m.columns[r], m.constants[r] = "", text
	}
	for _, need := range []struct {
		role role
		fix  string
	}{
		{rolePosition, "name the column whose values ascend, usually the identity column"},
		{roleXID, m.addXID()},
		{roleID, "name the column that identifies an event"},
		{rolePayload, "name the column with the content"},
	} {
		if m.columns[need.role] == "" {
			problems = append(problems, fmt.Errorf("column %s is not given: %s", roleKeys[need.role], need.fix))
		}
	}
	if m.layout == LayoutCustom && m.columns[roleType] == "" && m.constants[roleType] == "" && m.keys[roleType] == "" {
		problems = append(problems, errors.New(`column type is not given: name a column, write "=text" for a fixed one, or name a key of the headers in metadata`))
	}
	if m.columns[roleHeaders] == "" {
		for r, key := range m.keys {
			if key != "" {
				problems = append(problems, fmt.Errorf("metadata %s: key %q is looked for in the headers, and column headers is not given", roleKeys[r], key))
			}
		}
	}
	return errors.Join(problems...)
}

// headers are the columns that travel as headers of their own.
func (m *mapping) headers() []layout.Header {
	if m.preset == nil {
		return nil
	}
	return append(slices.Clip(m.preset.Headers), m.extra...)
}

// quoted is the name of a role's column.
func (m *mapping) quoted(r role) string { return pgx.Identifier{m.columns[r]}.Sanitize() }

// addXID says how a table without transaction ids gets them. Rows that were
// there before have none; they were committed when the lock was granted.
func (m *mapping) addXID() string {
	check := pgx.Identifier{pg.DerivedName(m.table, "_xid_set")}.Sanitize()
	return "without the transaction that wrote a row, rows that are committed late would be lost unnoticed; " +
		"add a column, which is quick and leaves existing rows alone: ALTER TABLE " + m.table.Sanitize() +
		" ADD COLUMN xid xid8, ALTER COLUMN xid SET DEFAULT pg_catalog.pg_current_xact_id(), ADD CONSTRAINT " + check +
		" CHECK (xid IS NOT NULL) NOT VALID; then give columns: {xid: xid}"
}
