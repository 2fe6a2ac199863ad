package config

// River makes jobs of River of messages.
type River struct {
	URL         SecretURL           `yaml:"url" required:"true" doc:"postgres:// URL of the database with River's tables. Where it is that of the route's state (of a queue table: of its source), by host, port and name, each message becomes exactly one job: both are committed together, with the connection of state or source. Elsewhere it is at least one."`
	TLS         TLS                 `yaml:"tls" doc:"Encryption of the connections, as of a source."`
	Schema      SchemaName          `yaml:"schema" default:"public" doc:"Schema of River's tables."`
	Job         Template            `yaml:"kind" default:"{{.Type}}" doc:"Kind of a job; a template."`
	Args        map[string]Template `yaml:"args" doc:"Arguments of a job by name, each a template, or payload for the message's payload as JSON. Default: the payload is the arguments; it has to be a JSON object."`
	Queue       Template            `yaml:"queue" default:"default" doc:"Queue of a job; a template."`
	MaxAttempts int                 `yaml:"max_attempts" default:"25" min:"1" max:"32767" doc:"How often River attempts a job at most."`
	Priority    int                 `yaml:"priority" default:"1" min:"1" max:"4" doc:"Priority of a job; 1 goes first."`
	Tags        []string            `yaml:"tags" doc:"Tags of a job, of 3 to 255 letters, digits, hyphens and underscores."`
	Unique      RiverUnique         `yaml:"unique" doc:"Which jobs are the same. One that River refuses as a duplicate counts as delivered, and in outrider_duplicates_total. Default: none are."`
	ScheduledAt string              `yaml:"scheduled_at" doc:"Header with the time, RFC 3339, before which a job is not worked. Default: none; jobs are worked at once."`
	Batch       RiverBatch          `yaml:"batch" doc:"Bounds of one transaction."`
}

// Kind is "river".
func (*River) Kind() string { return "river" }

// RiverUnique is what jobs that are the same have in common.
type RiverUnique struct {
	ByArgs   bool     `yaml:"by_args" default:"false" doc:"Jobs with the same arguments."`
	ByPeriod Duration `yaml:"by_period" min:"1s" max:"365d" doc:"Jobs that are due within the same period of this length. Default: whenever they are due."`
	ByQueue  bool     `yaml:"by_queue" default:"false" doc:"Jobs in the same queue."`
}

// RiverBatch bounds one transaction.
type RiverBatch struct {
	MaxMessages int `yaml:"max_messages" default:"500" min:"1" max:"5000" doc:"Most messages."`
}

func (r *River) check(c *checker, at place) {
	c.postgresURL(at.child("url"), r.URL, "")
	c.postgresTLS(at, r.URL, &r.TLS)
}
