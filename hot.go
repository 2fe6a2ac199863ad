package outrider

import (
	"fmt"

	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/router"
)

// HotPath returns the hot path of a source, which delivers messages of this process right after their commit, for
// [outbox.ClientConfig].Hot. The source is one of the configuration, with the layout outrider or
// outbox-framework. In MariaDB, MySQL and SQLite the relay reads the table right after each commit. In PostgreSQL:
//
// Messages are delivered from memory if the INSERT has shown that nothing of their group can be before them. Otherwise, with layout outrider, the
// relay reads the slots that the transaction wrote to, by a short statement and without waiting for its next poll.
//
// Polling continues beside it, and finds the other messages: those of other processes, and after a crash; those of lanes that other
// instances own; those without room in memory. Order and guarantees are the same either way.
//
// HotPath may be called before [Outrider.Run]; its result stays valid after a
// reload.
func (o *Outrider) HotPath(source string) (outbox.HotPath, error) {
	if o.cfg.Sources[source] == nil {
		return nil, fmt.Errorf("hot path: there is no source %q in the configuration", source)
	}
	switch k := assembly.NewBuilder(o.cfg, o.options).Source(source); {
	case k.Hot:
		return hotPath{o, source}, nil
	case k.Read:
		return readPath{o, source, ""}, nil
	}
	return nil, fmt.Errorf("hot path: source %q has none: it needs the layout outrider or outbox-framework, and hot_path.queue must not be 0; "+
		"call (*Outrider).Wake after the commit instead", source)
}

// readPath has the relay read the table right after a commit: it is for databases in which nothing that an INSERT returns says
// whether its row is the next of its group. It implements [outbox.HotPath] and [outbox.HotInsert].
type readPath struct {
	relay          *Outrider
	source, insert string
}

func (p readPath) Announce(insert string) outbox.HotInsert {
	return readPath{p.relay, p.source, insert}
}

func (p readPath) Statement() string { return p.insert }
func (readPath) Inserted([]*string)  {}
func (p readPath) Committed()        { p.relay.Wake(p.source) }
func (readPath) Forget()             {}

// hotPath is that of whichever generation is at work.
type hotPath struct {
	relay  *Outrider
	source string
}

// Announce implements [outbox.HotPath].
func (h hotPath) Announce(insert string) outbox.HotInsert {
	work := h.relay.generation.Load()
	if work == nil {
		return nil
	}
	f := work.parts.Feeds[h.source]
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

// Committed implements [outbox.HotInsert]: sessions take what they can, and the slots are read, by whichever generation is at work.
func (i *hotRows) Committed() {
	i.HotRows.Committed()
	if work := i.relay.generation.Load(); work != nil && i.Slots != 0 {
		if f := work.parts.Feeds[i.source]; f.Source != nil {
			work.router.Committed(f.Source, i.Slots)
		}
	}
}
