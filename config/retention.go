package config

// Retention removes rows of a PostgreSQL table that every route has settled.
type Retention struct {
	Mode          string   `yaml:"mode" enum:"delete|partitions" default:"delete" doc:"How rows are removed: one by one, by primary key and in batches, or as whole partitions, for which the table must have been created with them by outrider init."`
	Keep          Duration `yaml:"keep" default:"24h" min:"0s" doc:"Least age of a row that is removed, since its creation. Routes that have not settled a row keep it however old it is."`
	Every         Duration `yaml:"every" default:"1m" min:"1s" max:"24h" doc:"How often rows are looked for that may go."`
	Batch         int      `yaml:"batch" default:"10000" min:"16" max:"100000" doc:"Most rows of one transaction that deletes."`
	PartitionRows int      `yaml:"partition_rows" default:"1000000" min:"10000" max:"1000000000" doc:"Positions of one partition, with mode partitions. Four partitions are always made ahead."`
	WarnAfter     Duration `yaml:"warn_after" default:"1h" min:"1s" doc:"For how long a route may keep rows that are old enough to go before the log warns of it, again and again."`
}

func (r *Retention) check(c *checker, at place) {
	if at.sound("mode") && r.Mode == "delete" {
		c.onlyIn(at, "mode: partitions", "partition_rows")
	}
}

// checkRetention refuses the retention of tables that Outrider does not clean.
func (p *Postgres) checkRetention(c *checker, at place) {
	if p.Layout != "outrider" {
		c.onlyIn(at, "layout: outrider", "retention")
	}
}

// SQLiteRetention removes rows of an SQLite table that every route has settled.
type SQLiteRetention struct {
	Keep      Duration `yaml:"keep" default:"24h" min:"0s" doc:"Least age of a row that is removed, since its creation. Routes that have not settled a row keep it however old it is."`
	Every     Duration `yaml:"every" default:"1m" min:"1s" max:"24h" doc:"How often rows are looked for that may go."`
	Batch     int      `yaml:"batch" default:"1000" min:"16" max:"100000" doc:"Most rows of one transaction that deletes; the application's writers wait for it."`
	WarnAfter Duration `yaml:"warn_after" default:"1h" min:"1s" doc:"For how long a route may keep rows that are old enough to go before the log warns of it, again and again."`
}
