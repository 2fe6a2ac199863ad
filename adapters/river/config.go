package river

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/outriderhq/outrider/adapters/internal/pgtx"
	"github.com/outriderhq/outrider/outbox/format"
)

// Payload is the placeholder in [Config.Args] for the message's payload.
const Payload = "payload"

// Config says which jobs are made of messages. All templates are those of [format.Address].
type Config struct {
	// Pool of connections to the database with River's tables. Required. It is closed with the destination.
	Pool *pgxpool.Pool

	// Schema of River's tables. Default: public.
	Schema string

	// Kind is a template of the jobs' kind. Default: {{.Type}}.
	Kind string

	// Args are the arguments by name, each a template, or [Payload] for the payload as JSON. Without any the payload is
	// the arguments; then it must be a JSON object.
	Args map[string]string

	// Queue is a template of the queue. Default: default.
	Queue string

	// MaxAttempts of a job, from 1 to 32767. Default: River's, 25.
	MaxAttempts int

	// Priority of a job, from 1, which goes first, to 4. Default: 1.
	Priority int

	// Tags of a job.
	Tags []string

	// Unique says which jobs River takes for the same. A job that it refuses as a duplicate counts as
	// delivered. The zero value: none.
	Unique Unique

	// ScheduledAt names the header with the time, RFC 3339, before which a job is not worked. Empty: all are worked at
	// once, and so are those without the header.
	ScheduledAt string

	// Messages bounds the jobs of one statement. Default: 500.
	Messages int
}

// Unique says which jobs count as the same; see river.UniqueOpts.
type Unique struct {
	ByArgs   bool
	ByPeriod time.Duration
	ByQueue  bool
}

// is reports whether anything is to be unique.
func (u Unique) is() bool { return u != Unique{} }

// tag matches the tags that River allows.
var tag = regexp.MustCompile(`\A\w[\w-]+\w\z`)

// longestTag is how long a tag may be.
const longestTag = 255

// WithDefaults fills in what is missing; the error lists what is wrong.
func (c Config) WithDefaults() (Config, error) {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("no pool of connections given"))
	}
	if c.Schema == "" {
		c.Schema = "public"
	}
	if c.Kind == "" {
		c.Kind = "{{.Type}}"
	}
	if c.Queue == "" {
		c.Queue = river.QueueDefault
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = river.MaxAttemptsDefault
	}
	if c.Priority == 0 {
		c.Priority = river.PriorityDefault
	}
	if c.Messages <= 0 {
		c.Messages = pgtx.DefaultMessages
	}
	if c.MaxAttempts < 0 || c.MaxAttempts > 32767 {
		errs = append(errs, fmt.Errorf("max_attempts: %d is not from 1 to 32767", c.MaxAttempts))
	}
	if c.Priority < 0 || c.Priority > 4 {
		errs = append(errs, fmt.Errorf("priority: %d is not from 1 to 4", c.Priority))
	}
	if c.Unique.ByPeriod != 0 && c.Unique.ByPeriod < time.Second {
		errs = append(errs, fmt.Errorf("unique: by_period: %v is less than a second", c.Unique.ByPeriod))
	}
	for _, t := range c.Tags {
		if len(t) > longestTag || !tag.MatchString(t) {
			errs = append(errs, fmt.Errorf("tags: %q: a tag has 3 to %d letters, digits, hyphens and underscores, with no hyphen at its ends", t, longestTag))
		}
	}
	return c, errors.Join(errs...)
}

// templates are those of a configuration, parsed.
type templates struct {
	kind, queue *format.Address
	args        map[string]*format.Address // nil: the payload
}

func (c *Config) parse() (t templates, err error) {
	parse := func(name, text string) *format.Address {
		a, parseErr := format.NewAddress(text, nil)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, parseErr))
		}
		return a
	}
	t.kind, t.queue = parse("kind", c.Kind), parse("queue", c.Queue)
	t.args = make(map[string]*format.Address, len(c.Args))
	for name, text := range c.Args {
		if t.args[name] = nil; text != Payload {
			t.args[name] = parse("args: "+name, text)
		}
	}
	return t, err
}
