package config

import "github.com/outriderhq/outrider/config/internal/form"

// The stores of [Dedupe].
const (
	DedupeSQL    = "sql"
	DedupeMemory = "memory"
)

// defaultRemembered is the default of [Dedupe.Max].
const defaultRemembered = 100_000

// Dedupe skips messages whose event id was delivered before.
type Dedupe struct {
	Window Duration `yaml:"window" scalar:"true" default:"24h" min:"1s" max:"365d" doc:"How long a delivered id is remembered."`
	Store  string   `yaml:"store" enum:"sql|memory" default:"sql" doc:"sql: in table outrider_dedupe of the state store, which survives restarts; memory: in the process, lost when it ends."`
	Max    int      `yaml:"max" min:"1" max:"100000000" doc:"Most ids in memory, about 200 bytes each; beyond that the oldest are dropped before their window ends. Default: 100000. Only for store: memory."`
}

// Kind is "dedupe".
func (*Dedupe) Kind() string { return "dedupe" }

func (d *Dedupe) check(c *form.Checker, at form.Location) {
	switch {
	case d.Store == DedupeMemory && !at.Has("max"):
		d.Max = defaultRemembered
	case d.Store == DedupeSQL && at.Has("max") && at.Sound("store"):
		c.Add(at.Child("max"), "bounds the ids in memory, but they are kept in the state store").
			Fix("remove max, or use store: memory")
	}
}
