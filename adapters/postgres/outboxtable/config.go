package outboxtable

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outriderhq/outrider/adapters/internal/pgtx"
	"github.com/outriderhq/outrider/adapters/layout"
	"github.com/outriderhq/outrider/adapters/postgres/internal/pg"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// Own is the layout of Outrider's own table.
const Own = "outrider"

// Config says which table is written, and what of a message is written differently. All templates are those of
// [format.Address].
type Config struct {
	// Pool of connections to the database with the table. Required. It is closed with the destination.
	Pool *pgxpool.Pool

	// Layout of the table: [Own], or the name of one of [layout.All]. Default: [Own].
	Layout string

	// Table, as in SQL: table or schema.table, quoted where needed. A name without a schema is looked for in the search path.
	// Default: the layout's.
	Table string

	// Tables are the names of the tables by [layout.Table.Key], of a layout that has several. Default: the layout's.
	Tables map[string]string

	// Topic names the table of a layout whose tables belong to topics, where Table does not.
	Topic string

	// ID, Type and Group are templates of what becomes the row's event id, type and group. Messages without a group get
	// none. Default: the message's own.
	ID, Type, Group string

	// Notify wakes a relay that reads the table and sleeps, as [outbox.ClientConfig.Notify] does.
	Notify bool

	// Messages bounds the rows of one statement. Default: 500.
	Messages int
}

// WithDefaults fills in what is missing; the error lists what is wrong.
func (c Config) WithDefaults() (Config, error) {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("no pool of connections given"))
	}
	c.Layout = cmp.Or(c.Layout, Own)
	if c.Messages <= 0 {
		c.Messages = pgtx.DefaultMessages
	}
	preset := layout.Find(c.Layout)
	switch {
	case c.Layout == Own:
		c.Table = cmp.Or(c.Table, outbox.DefaultTable)
	case preset == nil:
		errs = append(errs, fmt.Errorf("layout: %q is none of %s and those of package layout", c.Layout, Own))
	case preset.Log != nil && preset.Log.Numbered:
		errs = append(errs, fmt.Errorf("layout: only the application appends to a table of layout %s, by functions of its own", c.Layout))
	case preset.Log != nil && preset.Log.TopicPrefix != "" && c.Table == "":
		if c.Topic == "" {
			errs = append(errs, fmt.Errorf("topic: a table of layout %s belongs to a topic: name it, or the table", c.Layout))
		}
		c.Table = pg.QuoteName(preset.Log.TopicPrefix + c.Topic)
	case preset.Log != nil:
		c.Table = cmp.Or(c.Table, preset.Log.Table)
	case len(preset.Queue.Tables) > 1:
		names := maps.Clone(c.Tables)
		if names == nil {
			names = map[string]string{}
		}
		for _, t := range preset.Queue.Tables {
			names[t.Key] = cmp.Or(names[t.Key], t.Name)
		}
		c.Tables = names
	default:
		c.Table = cmp.Or(c.Table, preset.Queue.Tables[0].Name)
	}
	return c, errors.Join(errs...)
}

// templates are those of a configuration, parsed; nil: what the message has.
type templates struct{ id, typ, group *format.Address }

func (c *Config) parse() (t templates, err error) {
	parse := func(name, text string) *format.Address {
		if text == "" {
			return nil
		}
		a, parseErr := format.NewAddress(text, nil)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, parseErr))
		}
		return a
	}
	t.id, t.typ, t.group = parse("id", c.ID), parse("type", c.Type), parse("group", c.Group)
	return t, err
}

// targets are the tables that are written to.
func (c *Config) targets() (out []*target, err error) {
	add := func(name, kind string) {
		parsed, parseErr := pg.ParseTable(name)
		if parseErr != nil {
			err = errors.Join(err, parseErr)
			return
		}
		out = append(out, &target{cfg: c, name: parsed, kind: kind})
	}
	if preset := layout.Find(c.Layout); preset != nil && preset.Queue != nil && len(preset.Queue.Tables) > 1 {
		for _, t := range preset.Queue.Tables {
			add(c.Tables[t.Key], t.Kind)
		}
		return out, err
	}
	add(c.Table, "")
	return out, err
}

// names are the tables of a configuration, in a fixed order.
func (c *Config) names() []string {
	if len(c.Tables) == 0 {
		return []string{c.Table}
	}
	return slices.Sorted(maps.Values(c.Tables))
}

// fullName is a table's name in messages.
func fullName(name pgx.Identifier) string { return name.Sanitize() }
