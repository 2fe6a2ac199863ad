package config

import "github.com/outriderhq/outrider/config/internal/form"

// River makes jobs of River of messages.
type River struct {
	URL         SecretURL           `yaml:"url" required:"true" doc:"postgres:// URL of the database with River's tables. If host, port and name are those of the route's state (for a queue table: of its source), each message becomes exactly one job: both are committed together, on the connection of state or source. Otherwise at least one."`
	TLS         TLS                 `yaml:"tls" doc:"Encryption of the connections, as for a source."`
	Schema      SchemaName          `yaml:"schema" default:"public" doc:"Schema of River's tables."`
	Job         Template            `yaml:"kind" default:"{{.Type}}" doc:"Kind of a job; a template."`
	Args        map[string]Template `yaml:"args" doc:"Arguments of a job by name, each a template, or payload for the message's payload as JSON. Default: the payload, which must be a JSON object."`
	Queue       Template            `yaml:"queue" default:"default" doc:"Queue of a job; a template."`
	MaxAttempts int                 `yaml:"max_attempts" default:"25" min:"1" max:"32767" doc:"Most attempts of a job by River."`
	Priority    int                 `yaml:"priority" default:"1" min:"1" max:"4" doc:"Priority of a job; 1 is the highest."`
	Tags        []string            `yaml:"tags" doc:"Tags of a job, of 3 to 255 letters, digits, hyphens and underscores."`
	Unique      RiverUnique         `yaml:"unique" doc:"Properties by which River recognises duplicates. A refused duplicate counts as delivered, and in outrider_duplicates_total. Default: no jobs are duplicates."`
	ScheduledAt string              `yaml:"scheduled_at" doc:"Header with the time, RFC 3339, before which a job is not worked. Default: none; jobs are available at once."`
	Batch       RiverBatch          `yaml:"batch" doc:"Bounds of one transaction."`
}

// Kind is "river".
func (*River) Kind() string { return "river" }

// RiverUnique has the properties by which River recognises duplicates.
type RiverUnique struct {
	ByArgs   bool     `yaml:"by_args" default:"false" doc:"Jobs with the same arguments."`
	ByPeriod Duration `yaml:"by_period" min:"1s" max:"365d" doc:"Jobs that are due within the same period of this length. Default: jobs due at any time."`
	ByQueue  bool     `yaml:"by_queue" default:"false" doc:"Jobs in the same queue."`
}

// RiverBatch bounds one transaction.
type RiverBatch struct {
	MaxMessages int `yaml:"max_messages" default:"500" min:"1" max:"5000" doc:"Most messages."`
}

func (r *River) check(c *form.Checker, at form.Location) {
	postgresURL(c, at.Child("url"), r.URL, "")
	postgresTLS(c, at, r.URL, &r.TLS)
}
