package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/endpoint"
)

var (
	_ adapters.Examiner     = (*Destination)(nil)
	_ adapters.TopicCreator = (*Destination)(nil)
)

// CreateTopic implements [adapters.TopicCreator]. There is nothing to create.
func (d *Destination) CreateTopic(context.Context, adapters.NewTopic) (bool, error) {
	return false, errors.New("redis: a stream is not created beforehand: the first message that is delivered to it creates it")
}

// Check implements [adapters.Checker]: the server must answer, and take an entry of a stream that is the same for all messages. None is
// added: the transaction is discarded.
func (d *Destination) Check(ctx context.Context) error {
	return d.ask(ctx, func(ctx context.Context, node *redis.Client) error { return d.rehearse(ctx, node) })
}

// ask calls do with the server of the stream, if it answers.
func (d *Destination) ask(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	timed, stop := context.WithTimeout(ctx, d.cfg.Timeout)
	defer stop()
	err := d.links.use(timed, func(ctx context.Context, l *link) error {
		node, err := nodeOf(ctx, l.UniversalClient, d.cfg.Stream)
		if err == nil {
			err = node.Ping(ctx).Err()
		}
		if err == nil || redis.HasErrorPrefix(err, "NOPERM") {
			err = do(ctx, node)
		}
		return err
	})
	if err == nil {
		return nil
	}
	answered := isAnswer(err)
	if err = d.cause(ctx, timed, d.cfg.Stream, err); answered {
		return err
	}
	return fmt.Errorf("%w; check the addresses and TLS, and that the server runs", err)
}

// rehearse queues an entry and discards it: the server refuses it now for what it would refuse a message for.
func (d *Destination) rehearse(ctx context.Context, node *redis.Client) error {
	if !d.topics.Static() {
		return nil
	}
	add := redis.NewStatusCmd(ctx, "xadd", d.cfg.Stream, "*", "check", "")
	p := node.Pipeline()
	_ = p.BatchProcess(ctx, redis.NewStatusCmd(ctx, "multi"), add, redis.NewStatusCmd(ctx, "discard")) // only queues
	_, _ = p.Exec(ctx)                                                                                 // add has its error
	if err := add.Err(); err != nil {
		return err
	}
	if kind, err := node.Type(ctx, d.cfg.Stream).Result(); err == nil && kind != "none" && kind != "stream" {
		return outage(d.cfg.Stream, fmt.Errorf("WRONGTYPE it is a %s", kind))
	}
	return nil
}

// Examine implements [adapters.Examiner]: servers are dialled, an entry is rehearsed, and the server is asked for what may lose
// messages that it has confirmed.
func (d *Destination) Examine(ctx context.Context) []adapters.Finding {
	f := endpoint.DialAny(ctx, d.cfg.Addresses, "6379", d.cfg.TLS, d.cfg.Timeout)
	subject := "stream " + d.cfg.Stream
	if err := d.Check(ctx); err != nil {
		f = append(f, adapters.FindingsOf(subject, err)...)
	} else if d.topics.Static() {
		f = append(f, adapters.Finding{Subject: subject, Text: "takes messages"})
	} else {
		f = append(f, adapters.Finding{Level: adapters.LevelUnknown, Subject: "streams " + d.cfg.Stream,
			Text: "depend on the message, so whether they take it is known when one is sent", Fix: "grant the user all keys that the template leads to"})
	}
	if d.cfg.MaxLen > 0 {
		f = append(f, adapters.Finding{Subject: "max_len", Text: fmt.Sprintf("a stream keeps about %d entries: consumers that are further behind lose some", d.cfg.MaxLen)})
	}
	return append(f, d.examineServer(ctx)...)
}

// examineServer judges the settings of the server that has the stream.
func (d *Destination) examineServer(ctx context.Context) (f []adapters.Finding) {
	err := d.ask(ctx, func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx).Result()
		if err != nil {
			return err
		}
		s := facts{info(text), map[string]string{}}
		for _, name := range []string{"appendfsync", "min-replicas-to-write"} {
			values, err := node.ConfigGet(ctx, name).Result()
			if err != nil {
				break // a login that only delivers may not
			}
			s.settings[name] = values[name]
		}
		f = []adapters.Finding{s.version(d.cfg.Repeats), s.role(d.cfg.Replicas), s.persistence(), s.eviction()}
		if s.number("connected_slaves") > 0 && d.cfg.Replicas == 0 {
			f = append(f, s.failover())
		}
		return nil
	})
	if err != nil {
		return []adapters.Finding{{Level: adapters.LevelUnknown, Subject: "server", Text: "its settings cannot be read: " + err.Error(), Fix: "grant the user +info, and +config|get for more"}}
	}
	return f
}

// facts are what a server tells of itself: INFO, and those of CONFIG GET that it may be asked for.
type facts struct{ info, settings map[string]string }

func (s facts) number(name string) int {
	n, _ := strconv.Atoi(s.info[name])
	return n
}

func (s facts) version(repeats bool) adapters.Finding {
	f := adapters.Finding{Subject: "version", Text: "Redis " + s.info["redis_version"]}
	switch {
	case !hasIDMP(s.info["redis_version"]):
		f.Text += " stores a message again that is sent again (IDMP needs 8.6)"
	case !repeats:
		f.Text += " recognises repeated messages (IDMP): the last 100 of a lane and stream, for 100 s, unless XCFGSET says otherwise"
	}
	return f
}

func (s facts) role(wanted int) adapters.Finding {
	n := s.number("connected_slaves")
	f := adapters.Finding{Subject: "role", Text: fmt.Sprintf("%s, %d replicas connected", s.info["role"], n)}
	switch {
	case s.info["role"] != "master":
		f.Level, f.Text, f.Fix = adapters.LevelBroken, "the server is a replica, which takes no writes", "name its master, or the sentinels with sentinel: {master: ...}"
	case n < wanted:
		f.Level, f.Fix = adapters.LevelBroken, fmt.Sprintf("start replicas: wait.replicas is %d", wanted)
	}
	return f
}

func (s facts) persistence() adapters.Finding {
	f := adapters.Finding{Level: adapters.LevelWarning, Subject: "persistence", Fix: "set appendonly yes and appendfsync always in the server's configuration"}
	fsync, known := s.settings["appendfsync"]
	switch {
	case s.info["aof_enabled"] != "1":
		f.Text = "appendonly is off: a crash of the server loses confirmed messages since its last snapshot"
	case !known:
		f.Level, f.Text, f.Fix = adapters.LevelUnknown, "appendonly is on; the login may not read appendfsync", "see whether it is always: everysec may lose the last second when the machine crashes"
	case fsync == "always":
		f.Level, f.Text, f.Fix = adapters.LevelOK, "appendfsync always: confirmed messages are on disk", ""
	default:
		f.Text = "appendfsync " + fsync + ": a crash of the machine may lose confirmed messages, with everysec those of the last second or two"
	}
	return f
}

func (s facts) eviction() adapters.Finding {
	policy, limit := s.info["maxmemory_policy"], s.info["maxmemory_human"]
	f := adapters.Finding{Subject: "memory", Text: "maxmemory " + limit + ", " + policy + ": a full server refuses messages, which wait"}
	switch {
	case s.number("maxmemory") == 0:
		f.Text = "no maxmemory: nothing is evicted"
	case len(policy) > 7 && policy[:7] == "allkeys":
		f.Level, f.Text = adapters.LevelWarning, "maxmemory "+limit+", "+policy+": a full server may delete a stream with all its messages"
		f.Fix = "set maxmemory-policy noeviction, or a volatile one"
	case policy != "noeviction":
		f.Text = "maxmemory " + limit + ", " + policy + ": only keys with an expiry are evicted, which streams have only if an application sets one"
	}
	return f
}

// failover judges a master with replicas that nothing waits for.
func (s facts) failover() adapters.Finding {
	f := adapters.Finding{Level: adapters.LevelWarning, Subject: "failover", Text: "replicas follow behind: one that takes over may lack confirmed messages",
		Fix: "set wait: {replicas: 1}, or min-replicas-to-write 1 on the server, which bounds the loss"}
	if n := s.settings["min-replicas-to-write"]; n != "" && n != "0" {
		f.Text += " (min-replicas-to-write " + n + " bounds how many)"
	}
	return f
}
