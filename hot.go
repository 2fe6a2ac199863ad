package outrider

import (
	"fmt"
	"strconv"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/outbox"
)

// HotPath returns the hot path of a source, which delivers messages of this process right after their commit, for
// [outbox.ClientConfig].Hot. The source is one of the configuration, in PostgreSQL, with the layout outrider or
// outbox-framework.
//
// With outbox-framework messages are delivered from memory. With outrider the relay reads the slots that the transaction wrote to, by a
// short statement and without waiting for its next poll; the columns that order them need what only the table knows.
//
// Polling continues beside it, and finds the other messages: those of other processes, and after a crash; those of lanes that other
// instances own; those without room in memory; with outbox-framework also those behind a message of their group that may be unfinished.
// Order and guarantees are the same either way.
//
// HotPath may be called before [Outrider.Run]; its result stays valid after a
// reload.
func (o *Outrider) HotPath(source string) (outbox.HotPath, error) {
	if o.cfg.Sources[source] == nil {
		return nil, fmt.Errorf("hot path: there is no source %q in the configuration", source)
	}
	if !assembly.NewBuilder(o.cfg, o.options).Source(source).Hot {
		return nil, fmt.Errorf("hot path: source %q has none: it needs PostgreSQL with layout outrider or outbox-framework, and hot_path.queue must not be 0; "+
			"call (*Outrider).Wake after the commit instead", source)
	}
	return hotPath{o, source}, nil
}

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
		return &hotSlots{hotPath: h, insert: insert}
	}
	return nil
}

// hotSlots is an INSERT into an append-only table: the slots that it wrote to are read after the commit.
type hotSlots struct {
	hotPath
	insert string
	slots  uint32 // a bit for each
}

// Statement implements [outbox.HotInsert].
func (i *hotSlots) Statement() string { return i.insert + "\nRETURNING CAST(slot AS pg_catalog.text)" }

// Inserted implements [outbox.HotInsert].
func (i *hotSlots) Inserted(columns []*string) {
	if len(columns) != 1 || columns[0] == nil {
		return
	}
	if slot, err := strconv.Atoi(*columns[0]); err == nil && slot >= 0 && slot < adapters.Slots {
		i.slots |= 1 << slot
	}
}

// Committed implements [outbox.HotInsert].
func (i *hotSlots) Committed() {
	if work := i.relay.generation.Load(); work != nil && i.slots != 0 {
		if f := work.parts.Feeds[i.source]; f.Source != nil {
			work.router.Committed(f.Source, i.slots)
		}
	}
}

// Forget implements [outbox.HotInsert].
func (i *hotSlots) Forget() {}
