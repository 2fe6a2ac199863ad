package config

import "github.com/outriderhq/outrider/config/internal/form"

// Retention removes rows of a PostgreSQL table that every route has settled, or delivered rows of queue tables.
type Retention struct {
	Mode          string   `yaml:"mode" enum:"delete|partitions" default:"delete" doc:"How rows are removed: in batches by primary key, or, in Outrider's own layout, as whole partitions, which outrider init must have created with the table."`
	Keep          Duration `yaml:"keep" default:"24h" min:"0s" doc:"Least age of a row, since its creation, at which it is removed. A row that a route has not settled stays at any age, and so does a row of a queue that is not delivered."`
	Every         Duration `yaml:"every" default:"1m" min:"1s" max:"24h" doc:"Interval between two removals."`
	Batch         int      `yaml:"batch" default:"10000" min:"16" max:"100000" doc:"Most rows deleted in one transaction."`
	PartitionRows int      `yaml:"partition_rows" default:"1000000" min:"10000" max:"1000000000" doc:"Positions of one partition, with mode partitions. Four partitions are always created ahead."`
	WarnAfter     Duration `yaml:"warn_after" default:"1h" min:"1s" doc:"How long a route may hold back old rows before the log warns, repeatedly. No route holds back rows of a queue."`
}

func (r *Retention) check(c *form.Checker, at form.Location) {
	if at.Sound("mode") && r.Mode == "delete" {
		onlyIn(c, at, "mode: partitions", "partition_rows")
	}
}

// checkRetention refuses the retention of tables that Outrider does not clean.
func (p *Postgres) checkRetention(c *form.Checker, at form.Location) {
	switch {
	case p.Layout != own && !p.Queued():
		onlyIn(c, at, "layout: outrider, or a queue layout", "retention")
	case p.Queued() && !p.Deletes() && p.Retention != nil && p.Retention.Mode == "partitions":
		c.Add(at.Child("retention").Child("mode"), "rows of a queue table are removed one by one").Fix("remove the key, or set mode: delete")
	}
}

// QueueRetention removes delivered rows of queue tables.
type QueueRetention struct {
	Keep  Duration `yaml:"keep" default:"24h" min:"0s" doc:"Least age of a delivered row, since its creation, at which it is removed. Rows with another status stay at any age."`
	Every Duration `yaml:"every" default:"1m" min:"1s" max:"24h" doc:"Interval between two removals."`
	Batch int      `yaml:"batch" default:"1000" min:"16" max:"100000" doc:"Most rows of a table deleted in one transaction."`
}

// SQLiteRetention removes rows of an SQLite table that every route has settled, or delivered rows of queue tables.
type SQLiteRetention struct {
	Keep      Duration `yaml:"keep" default:"24h" min:"0s" doc:"Least age of a row, since its creation, at which it is removed. A row that a route has not settled stays at any age, and so does a row of a queue that is not delivered."`
	Every     Duration `yaml:"every" default:"1m" min:"1s" max:"24h" doc:"Interval between two removals."`
	Batch     int      `yaml:"batch" default:"1000" min:"16" max:"100000" doc:"Most rows deleted in one transaction; the application's writers wait for it."`
	WarnAfter Duration `yaml:"warn_after" default:"1h" min:"1s" doc:"How long a route may hold back old rows before the log warns, repeatedly. No route holds back rows of a queue."`
}
