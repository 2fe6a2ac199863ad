package relay

import (
	"fmt"

	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// HotPath returns the hot path of a source: see package outrider. It stays valid after a reload.
func (r *Relay) HotPath(source string) (outbox.HotPath, error) {
	if r.cfg.Sources[source] == nil {
		return nil, fmt.Errorf("hot path: there is no source %q in the configuration", source)
	}
	switch k := assembly.NewBuilder(r.cfg, r.options).Source(source); {
	case k.Hot:
		return hotPath{r, source}, nil
	case k.Read:
		return readPath{r, source, ""}, nil
	}
	return nil, fmt.Errorf("hot path: source %q has none: it needs the layout outrider or outbox-framework, and hot_path.queue must not be 0; "+
		"call (*Outrider).Wake after the commit instead", source)
}

// readPath has the relay read the table right after a commit: it is for databases in which nothing that an INSERT returns says
// whether its row is the next of its group. It implements [outbox.HotPath] and [outbox.HotInsert].
type readPath struct {
	relay          *Relay
	source, insert string
}

func (p readPath) Announce(insert string) outbox.HotInsert {
	return readPath{p.relay, p.source, insert}
}

func (p readPath) Statement() string { return p.insert }
func (readPath) Inserted([]*string)  {}
func (p readPath) Committed()        { p.relay.Wake(p.source) }
func (readPath) Forget()             {}

// hotPath is the hot path of the generation that runs.
type hotPath struct {
	relay  *Relay
	source string
}

// Announce implements [outbox.HotPath].
func (h hotPath) Announce(insert string) outbox.HotInsert {
	work := h.relay.generation.Load()
	if work == nil {
		return nil
	}
	f := work.now().parts.Feeds[h.source]
	switch {
	case f.Queue != nil:
		return work.router.Announce(f.Queue, insert)
	case f.Source != nil:
		if in := work.router.AnnounceRows(f.Source, insert); in != nil {
			return &hotRows{in, h}
		}
	}
	return nil
}

// hotRows is an INSERT into an append-only table.
type hotRows struct {
	router.HotRows
	hotPath
}

// Committed implements [outbox.HotInsert]: sessions take what they can, and the generation that runs reads the slots.
func (i *hotRows) Committed() {
	i.HotRows.Committed()
	if work := i.relay.generation.Load(); work != nil && i.Slots != 0 {
		if f := work.now().parts.Feeds[i.source]; f.Source != nil {
			work.router.Committed(f.Source, i.Slots)
		}
	}
}
