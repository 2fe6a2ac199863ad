package river

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/riverqueue/river"

	"github.com/outriderhq/outrider/outbox"
)

// job is the job that River inserts for a message.
type job struct {
	kind string
	args json.RawMessage
}

// Kind implements river.JobArgs.
func (j job) Kind() string { return j.kind }

// MarshalJSON implements json.Marshaler.
func (j job) MarshalJSON() ([]byte, error) { return j.args, nil }

// The names that River allows for a queue.
var queueName = regexp.MustCompile(`\A[a-z0-9]+([_-]?[a-z0-9]+)*\z`)

const longestQueue = 64

// params makes the job of a message; an error is permanent.
func (d *Destination) params(msg *message.Message) (p river.InsertManyParams, err error) {
	defer func() {
		if err != nil {
			err = outbox.Permanent(fmt.Errorf("river: %w", err))
		}
	}()
	kind, err := d.templates.kind.Render(msg)
	if err != nil {
		return p, fmt.Errorf("kind: %w", err)
	}
	queue, err := d.templates.queue.Render(msg)
	if err != nil {
		return p, fmt.Errorf("queue: %w", err)
	}
	if len(queue) > longestQueue || !queueName.MatchString(queue) {
		return p, fmt.Errorf("queue: %q is no name of a queue: up to %d lower-case letters and digits, with single hyphens and underscores between them", queue, longestQueue)
	}
	args, err := d.args(msg)
	if err != nil {
		return p, err
	}
	at, err := d.scheduledAt(msg)
	if err != nil {
		return p, err
	}
	opts := &river.InsertOpts{
		Queue: queue, MaxAttempts: d.cfg.MaxAttempts, Priority: d.cfg.Priority, Tags: d.cfg.Tags, ScheduledAt: at, Metadata: metadata(msg),
	}
	if u := d.cfg.Unique; u.is() {
		opts.UniqueOpts = river.UniqueOpts{ByArgs: u.ByArgs, ByPeriod: u.ByPeriod, ByQueue: u.ByQueue}
	}
	return river.InsertManyParams{Args: job{kind, args}, InsertOpts: opts}, nil
}

// args are the arguments of a message's job: a JSON object that the database can keep.
func (d *Destination) args(msg *message.Message) (json.RawMessage, error) {
	payload := json.RawMessage(msg.Payload)
	if len(d.templates.args) == 0 {
		return payload, storable(payload, true)
	}
	out := make(map[string]any, len(d.templates.args))
	for name, t := range d.templates.args {
		if t == nil {
			if err := storable(payload, false); err != nil {
				return nil, err
			}
			out[name] = payload
			continue
		}
		text, err := t.Render(msg)
		if err != nil {
			return nil, fmt.Errorf("args: %s: %w", name, err)
		}
		out[name] = text
	}
	return json.Marshal(out)
}

// storable says why a payload cannot be arguments of a job.
func storable(payload json.RawMessage, object bool) error {
	trimmed := strings.TrimLeft(string(payload[:min(len(payload), 64)]), " \t\r\n")
	switch {
	case !json.Valid(payload):
		return errors.New("the payload is not JSON, which arguments of a job are")
	case object && !strings.HasPrefix(trimmed, "{"):
		return errors.New("the payload is not a JSON object, which arguments of a job are; args: {event: payload} makes one of it")
	}
	return nil
}

// scheduledAt is when the job of a message is due; zero: at once.
func (d *Destination) scheduledAt(msg *message.Message) (time.Time, error) {
	text := msg.Metadata[d.cfg.ScheduledAt]
	if d.cfg.ScheduledAt == "" || text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("scheduled_at: header %s: %q is not a time such as 2026-01-02T15:04:05Z", d.cfg.ScheduledAt, text)
	}
	return at, nil
}

// metadata is the metadata of a message's job: what the message is, and its headers.
func metadata(msg *message.Message) []byte {
	type event struct {
		ID      string            `json:"event_id"`
		Type    string            `json:"type,omitempty"`
		Group   string            `json:"group,omitempty"`
		Tenant  string            `json:"tenant,omitempty"`
		Headers map[string]string `json:"headers,omitempty"`
	}
	e := event{ID: msg.UUID, Type: msg.Metadata[outbox.MetaType], Group: msg.Metadata[outbox.MetaGroup], Tenant: msg.Metadata[outbox.MetaTenant]}
	for name, value := range msg.Metadata {
		if strings.HasPrefix(name, outbox.HeaderPrefix) {
			continue
		}
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers[name] = value
	}
	out, _ := json.Marshal(map[string]event{"outrider": e}) // strings, so it cannot fail
	return out
}
