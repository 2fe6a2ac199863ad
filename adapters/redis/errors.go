package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/outbox"
)

// cause is the error of a batch that was not stored, or of which that is not known. timed is ctx with the time that a delivery has.
func (d *Destination) cause(ctx, timed context.Context, stream string, err error) error {
	if _, ok := errors.AsType[*outbox.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, errClosed):
		return outbox.Released(err)
	case errors.Is(ctx.Err(), context.Canceled):
		return outbox.Released(fmt.Errorf("redis: the delivery to stream %q was called off: %w", stream, ctx.Err()))
	case expired(ctx):
		return outbox.Transient(fmt.Errorf("redis: stream %q did not confirm the messages in the time given: %w", stream, context.DeadlineExceeded), 0)
	case errors.Is(err, errBusy):
		return outbox.Unavailable(fmt.Errorf("redis: all %d connections were busy for %v: see why the server is slow", mostLinks, d.cfg.Timeout), 0)
	case expired(timed):
		return outbox.Unavailable(fmt.Errorf("redis: %s did not confirm messages for stream %q within %v: see whether the server hangs or is overloaded", d.at(), stream, d.cfg.Timeout), 0)
	case isAnswer(err):
		return outage(stream, err)
	}
	return outbox.Unavailable(fmt.Errorf("redis: %s cannot be used: %w", d.at(), err), 0)
}

// expired reports whether the time of ctx is up. Connections find out a moment before ctx does.
func expired(ctx context.Context) bool {
	until, ok := ctx.Deadline()
	return ok && !time.Now().Before(until)
}

// at names the servers.
func (d *Destination) at() string { return strings.Join(d.cfg.Addresses, ", ") }

// outages are the beginnings of answers that concern no single message, with the fix.
var outages = []struct{ begin, hint string }{
	{"WRONGTYPE", "rename or delete the key, which holds something else, or deliver to another"},
	{"NOPERM", "grant the user what it lacks: ACL SETUSER USER ~STREAM +xadd +multi +exec +discard +ping +info"},
	{"NOAUTH", "set username and password"},
	{"WRONGPASS", "check username and password"},
	{"READONLY", "the server is a replica: name its master, or the sentinels"},
	{"LOADING", "wait until it has"},
	{"MASTERDOWN", "the server is a replica: name its master, or the sentinels"},
	{"CLUSTERDOWN", "see CLUSTER INFO: some slots may have no node"},
	{"MOVED", "the stream is on another node, which is looked up again; a server of a cluster needs cluster: true"},
	{"ASK", "the stream is being moved to another node of the cluster"},
	{"TRYAGAIN", "the stream is being moved to another node of the cluster"},
	{"OOM", "raise maxmemory, or trim streams (max_len)"},
	{"MISCONF", "see the server's log and its disk"},
	{"NOREPLICAS", "start the replicas that min-replicas-to-write wants"},
	{"BUSY", "see which script keeps it busy: SCRIPT KILL ends it"},
	{"ERR max number of clients", "raise maxclients, or see what opens so many"},
}

// outage says why a stream cannot be written to. No message is to blame for any of it.
func outage(stream string, err error) error {
	for _, o := range outages {
		if redis.HasErrorPrefix(err, o.begin) || strings.HasPrefix(err.Error(), o.begin) {
			return outbox.Unavailable(fmt.Errorf("redis: stream %q cannot be written to: %w; %s", stream, err, o.hint), 0)
		}
	}
	return outbox.Unavailable(fmt.Errorf("redis: stream %q cannot be written to: %w", stream, err), 0)
}

// refused is the error of a message that the server refused while it executed the transaction, which stored the rest of it.
func refused(stream, id string, err error) error {
	text := err.Error()
	if strings.Contains(text, "too large to be stored") {
		return outbox.Permanent(fmt.Errorf("message %s is too large for stream %q: %w", id, stream, err))
	}
	if strings.HasPrefix(text, "ERR ") && !strings.Contains(text, "exhausted the last possible ID") {
		return outbox.Transient(fmt.Errorf("stream %q refused message %s: %w", stream, id, err), 0)
	}
	return outage(stream, err)
}
