package layout

import (
	"slices"
	"sync"
	"time"
)

// Preset is a layout that has a name.
type Preset struct {
	Name  string // value of the key layout
	Title string // what people call the system that the tables belong to
	Doc   string // what the tables are, as part of a sentence
	Page  string // the page about it, below docs

	// Log describes an append-only table, which is read by a cursor; Queue tables whose
	// rows carry a status. One of them is given.
	Log   *Log
	Queue *Queue

	Hot bool // rows that this process has committed can be delivered from memory

	Defaults Defaults
}

// Defaults are the values that settings have with a preset, where users write none. Zero
// values leave Outrider's own.
type Defaults struct {
	Poll  time.Duration // pause between polls, which never changes
	Batch int           // rows of a poll, of each table

	InMemory int           // rows that are claimed at most
	Timeout  time.Duration // after which a claimed row counts as stuck
	Recover  time.Duration // between two searches for stuck rows

	Retry *Retry // of routes that list no middleware

	Global bool // routes keep the order of the whole table

	Lock   int  // key of the session advisory lock that the source system's leader holds, for ours
	Leader bool // one instance at a time works all tables: the source system's limits are those of all its instances

	Statistics time.Duration // how often the log sums up what was delivered; 0: never

	// Together: the limit of requests of a destination is one of all routes of the source together.
	Together bool
}

// Retry says when a failed message is attempted again.
type Retry struct {
	Attempts int           // in all, the first included
	Base     time.Duration // pause after the first attempt
	Max      time.Duration // longest pause
	Jitter   float64       // share of the pause that is random, from 0 to 1
	Linear   bool          // the pause grows by Base with each attempt; otherwise it doubles

	Hold bool // the group of a message whose attempts are used up waits for an operator

	// NextPoll attempts at the next poll, Base after the failure at the earliest, in place of
	// Max, Jitter and Linear.
	NextPoll bool
}

// All returns the presets, in the order in which people read them. A new one is a file of
// this package and a line here.
func All() []*Preset {
	return []*Preset{Watermill(), FlowCatalyst(), FlowCatalystV2(), Talkie(), OpenOutbox(), OutboxFramework(), Yantra(), YantraV2(), Crablet(), CrabletV2(), Debezium()}
}

// found are the presets that [Find] returns: it is called for each route again and again.
var found = sync.OnceValue(All)

// Find returns the preset of a name, which is not to be changed; nil: there is none.
func Find(name string) *Preset {
	if i := slices.IndexFunc(found(), func(p *Preset) bool { return p.Name == name }); i >= 0 {
		return found()[i]
	}
	return nil
}
