package outrider

import (
	"fmt"

	"github.com/outriderhq/outrider/internal/assembly"
	"github.com/outriderhq/outrider/outbox"
)

// HotPath returns what has messages of this process delivered from memory, right after their commit, for [outbox.ClientConfig].Hot. The
// source is one of the configuration, with the layout outbox-framework. The poll goes on beside it, and finds what the hot path leaves:
// messages of other processes, and after a crash; those of lanes that other instances own; those that the queue of the hot path has no
// room for; and those behind a message of their group that may be unfinished. Order and guarantees are the same either way.
//
// It may be called before [Outrider.Run], and stays valid after a reload.
func (o *Outrider) HotPath(source string) (outbox.HotPath, error) {
	if o.cfg.Sources[source] == nil {
		return nil, fmt.Errorf("hot path: there is no source %q in the configuration", source)
	}
	if !assembly.NewBuilder(o.cfg, o.options).Source(source).Hot {
		return nil, fmt.Errorf("hot path: source %q has none: it needs layout: outbox-framework, and hot_path.queue must not be 0; "+
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
	if f := work.parts.Feeds[h.source]; f.Queue != nil {
		return work.router.Announce(f.Queue, insert)
	}
	return nil
}
