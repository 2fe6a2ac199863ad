package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/outriderhq/outrider/outbox"
)

// wait is the command that waits for replicas to have all that was written over the connection.
func (d *Destination) wait(ctx context.Context) *redis.Cmd {
	return redis.NewCmd(ctx, "wait", d.cfg.Replicas, d.cfg.ReplicaTimeout.Milliseconds())
}

// confirmed says whether enough replicas have what was stored.
func (d *Destination) confirmed(wait *redis.Cmd) error {
	n, err := wait.Int()
	if err == nil && n >= d.cfg.Replicas {
		return nil
	}
	d.alone.Store(true)
	if err != nil {
		return fmt.Errorf("wait for replicas: %w", err)
	}
	return outbox.Unavailable(fmt.Errorf("redis: the messages were stored, but %d of %d replicas confirmed them within %v, so they will be sent again: start the replicas, or lower wait.replicas",
		n, d.cfg.Replicas, d.cfg.ReplicaTimeout), 0)
}

// awaitReplicas sends nothing while replicas are missing: every try would be stored once more.
func (d *Destination) awaitReplicas(ctx context.Context, node *redis.Client) error {
	if d.cfg.Replicas == 0 || !d.alone.Load() {
		return nil
	}
	wait := d.wait(ctx)
	_ = node.Process(ctx, wait) // the command has its error
	n, err := wait.Int()
	if err != nil {
		return err
	}
	if n < d.cfg.Replicas {
		return outbox.Unavailable(fmt.Errorf("redis: %d of %d replicas answer, so nothing is sent: start the replicas, or lower wait.replicas", n, d.cfg.Replicas), 0)
	}
	d.alone.Store(false)
	return nil
}

// oldestIDMP is the first version whose streams recognise repeated messages.
var oldestIDMP = [2]int{8, 6}

// unique reports whether the server recognises repeated messages. A server that tells no version does not.
func (d *Destination) unique(ctx context.Context, l *link, node *redis.Client) bool {
	if d.cfg.Repeats || d.noRepeat.Load() {
		return false
	}
	if !l.asked {
		text, err := node.Info(ctx, "server").Result()
		l.asked, l.unique = err == nil || isAnswer(err), hasIDMP(info(text)["redis_version"])
	}
	return l.unique
}

// foundUnique takes IDMP back if the server did not understand it: then it stored no message.
func (d *Destination) foundUnique(errs []error) {
	for _, err := range errs {
		if err == nil || outbox.KindOf(err) != outbox.KindTransient {
			return
		}
	}
	if len(errs) == 0 {
		return
	}
	d.noRepeat.Store(true)
	d.cfg.Logger.Warn("redis: the server does not recognise repeated messages, though its version should; from now on they are sent without ids for it", "error", errs[0])
	for i := range errs {
		errs[i] = outbox.Unavailable(errs[i], 0)
	}
}

func hasIDMP(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	return errMajor == nil && errMinor == nil && (a > oldestIDMP[0] || a == oldestIDMP[0] && b >= oldestIDMP[1])
}

// info reads what INFO answers.
func info(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[key] = value
		}
	}
	return values
}
