package config

import "github.com/outriderhq/outrider/config/internal/form"

// Postgres is an outbox table in a PostgreSQL database: append-only, or a queue
// whose rows carry a status.
type Postgres struct {
	URL         SecretURL `yaml:"url" required:"true" doc:"postgres:// URL of the primary server. A connection may take 10 s to open, or the seconds of its parameter connect_timeout."`
	TLS         TLS       `yaml:"tls" doc:"Encryption of the connections. Default: the URL's sslmode; without it TLS with a verified certificate, unless the server is on this machine or reached by a Unix socket."`
	TableSource `yaml:",inline"`

	_ form.Key `yaml:"layout" enum:"outrider|{layouts}|custom" default:"outrider" doc:"Layout of the table: Outrider's own, that of a known system (docs/layouts.md describes each, with its defaults), or custom: append-only, described by columns (docs/tables.md), or with a status, described by queue."`
	_ form.Key `yaml:"table" default:"outrider_outbox" doc:"Name of the table, with its schema if that is not in the search path. Layout watermill defaults to watermill_TOPIC, other named layouts to the original's name; layout custom requires it."`

	Topic    string       `yaml:"topic" doc:"With layout {layouts with topics}: the topic of the table, and the type of messages without a type. Default: the table's name without watermill_."`
	Client   string       `yaml:"client" enum:"outrider|watermill" default:"outrider" doc:"With layout watermill: reader of the table. watermill is the stock Subscriber of watermill-sql, with its consumer group and its table of offsets: one message at a time, and none while an older transaction runs (docs/migrate/watermill.md)."`
	Group    string       `yaml:"consumer_group" doc:"With layout watermill: consumer group of watermill-sql's Subscriber, for client: watermill and start: offsets. Default: the empty one, as in watermill-sql."`
	Offsets  Table        `yaml:"offsets_table" doc:"With layout watermill: table of watermill-sql's offsets. Default: watermill_offsets_TOPIC, beside the table."`
	Columns  Columns      `yaml:"columns" doc:"With layout custom: columns of the table. With layout {captured layouts}: those that have other names than the original's, and further ones such as tenant."`
	Headers  []HeaderFrom `yaml:"header_columns" doc:"With layout {captured layouts}: columns that travel as headers, where they are not NULL (fields with placement header)."`
	Metadata MetadataKeys `yaml:"metadata" doc:"With layout {layouts with headers} or custom: keys of the metadata (headers) with values that have no column."`

	Progress Table `yaml:"progress_table" doc:"With layout {layouts with progress}: name of the original's table with the progress of its publishers, for routes with progress. Default: that of the original."`

	_ form.Key `yaml:"tables"`
	_ form.Key `yaml:"queue" doc:"With layout custom, instead of columns: columns of a table whose rows carry a status."`
	_ form.Key `yaml:"claims" doc:"With layout {queue layouts}, or with a queue: limits and timeouts of claims."`

	HotPath HotPath `yaml:"hot_path" doc:"With layout {layouts with a hot path}, in a Go program that publishes, runs the relay, and passes (*Outrider).HotPath to its client: committed rows are delivered from memory. See docs/waking.md."`

	_ form.Key `yaml:"delivered" doc:"With layout {queue layouts}, or with a queue: whether a delivered row is kept, with its status, or deleted. With layout {layouts that delete} the default is delete."`

	_ form.Key `yaml:"wake" enum:"poll|notify|replication|auto" doc:"How new rows are found: by polling alone, or also by notifications of publishers, or by the server's WAL, each on a separate connection; auto takes WAL where the role may read it, else notifications where the tables have the trigger. See docs/waking.md."`
	_ form.Key `yaml:"poll" doc:"Interval and size of reads. For queue tables batch is 500 by default. Named layouts have the interval of the original, which is fixed with wake: poll (docs/layouts.md)."`

	_ form.Key `yaml:"max_row"`

	_          form.Key `yaml:"leader"`
	LeaderLock int      `yaml:"leader_lock" doc:"With leader: true: key of a session advisory lock in the source's database, which the leader holds while it runs. Outrider and another program with the same key stand by for each other. Default: with layout {layouts with a lock} that of the original, otherwise none."`

	Retention *Retention `yaml:"retention" doc:"With layout outrider: removes rows that every route has settled. With layout {queue layouts}, or with a queue: removes delivered rows. {} is enough. Default: rows are never removed. See docs/retention.md."`
}

// Kind is "postgres".
func (*Postgres) Kind() string { return "postgres" }

func (p *Postgres) traits() traits {
	t := traits{database: p.URL.Reveal(), tls: &p.TLS, state: &postgresState, log: !p.Queued() && !p.ByWatermillSQL(), oneRoute: p.ByWatermillSQL(), offsets: p.Layout == "watermill"}
	if p.ByWatermillSQL() {
		t.noun = "source with client watermill"
	}
	return t
}

var postgresState = stateKind{
	schemes: []string{"postgres", "postgresql"}, schemas: true,
	check: func(c *form.Checker, at form.Location, s *State, otherwise string) {
		postgresURL(c, at.Child("url"), s.URL, otherwise)
		postgresTLS(c, at, s.URL, &s.TLS)
	},
}

// ByWatermillSQL reports whether watermill-sql's own Subscriber reads the table.
func (p *Postgres) ByWatermillSQL() bool { return p.Client == "watermill" }

func (p *Postgres) check(c *form.Checker, at form.Location) {
	postgresURL(c, at.Child("url"), p.URL, "")
	postgresTLS(c, at, p.URL, &p.TLS)
	if at.Sound("layout") { // otherwise all of this would follow from the one mistake
		p.checkLayout(c, at)
		p.checkQueue(c, at)
		p.checkRetention(c, at)
	}
	if preset := p.Preset(); preset != nil && preset.Defaults.Lock != 0 && p.Leader && !at.Has("leader_lock") {
		p.LeaderLock = preset.Defaults.Lock
	}
	if at.Has("leader_lock") && at.Sound("leader") && !p.Leader {
		c.Add(at.Child("leader_lock").Key(), "has an effect for a leader only").Fix("set leader: true, or remove the key")
	}
}
