package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"
)

// checker compares what arrived with what is in the table. A message is known
// by its payload, which is all that every peer passes on in the same way.
type checker struct {
	seed   maphash.Seed
	rows   map[uint64]place // by the payload's hash
	seen   []bool           // by place.index
	times  []time.Time      // by place.index; zero: not known
	names  map[string]uint32
	groups []groupState
	tally  tally
}

// place is where a row stands.
type place struct {
	index   uint32 // in the table
	group   uint32
	ordinal uint32 // within the group, from 1
}

// groupState is what has arrived of a group.
type groupState struct {
	rows      uint32 // expected
	last      uint32 // the highest ordinal that has arrived
	partition int32  // -1: none yet
}

// tally is the result of a check.
type tally struct {
	Records    int // that arrived
	Lost       int // rows of which no record arrived
	Duplicates int // records of rows that had arrived already
	OutOfOrder int // first records that came after a later row of their group, or in another partition
	Foreign    int // records that are no row's, or have another key than their row's group
	Mixed      int // requests with records of several groups
	Unsigned   int // requests whose signature is wrong
}

// err is nil when every row arrived once and in order.
func (t tally) err() error {
	if t.Lost+t.Duplicates+t.OutOfOrder+t.Foreign+t.Mixed+t.Unsigned == 0 {
		return nil
	}
	return fmt.Errorf("of %d records: lost %d, duplicates %d, out of order %d, foreign %d; requests of several groups %d, wrongly signed %d",
		t.Records, t.Lost, t.Duplicates, t.OutOfOrder, t.Foreign, t.Mixed, t.Unsigned)
}

// err is nil when every row arrived once, and in order if that matters.
func (c *checker) err(unordered bool) error {
	t := c.tally
	if unordered {
		t.OutOfOrder = 0
	}
	return t.err()
}

func newChecker() *checker {
	return &checker{seed: maphash.MakeSeed(), rows: map[uint64]place{}, names: map[string]uint32{}}
}

// expect adds the next row of the table. No two may have the same payload.
func (c *checker) expect(group, payload []byte) error {
	g, ok := c.names[string(group)]
	if !ok {
		g = uint32(len(c.groups))
		c.names[string(group)] = g
		c.groups = append(c.groups, groupState{partition: -1})
	}
	hash := maphash.Bytes(c.seed, payload)
	if _, twice := c.rows[hash]; twice {
		return errors.New("two rows of the backlog have the same payload, so that nobody could tell them apart")
	}
	c.groups[g].rows++
	c.rows[hash] = place{index: uint32(len(c.rows)), group: g, ordinal: c.groups[g].rows}
	return nil
}

// reset forgets what arrived.
func (c *checker) reset() {
	c.seen = make([]bool, len(c.rows))
	c.times = make([]time.Time, len(c.rows))
	c.tally = tally{Lost: len(c.rows)}
	for g := range c.groups {
		c.groups[g].last, c.groups[g].partition = 0, -1
	}
}

// arrived takes the records of a partition in their order. Partitions may be
// mixed. It returns the record's row, by its index; -1: it is no row's.
func (c *checker) arrived(partition int32, key, payload []byte) int {
	c.tally.Records++
	at, known := c.rows[maphash.Bytes(c.seed, payload)]
	group, named := c.names[string(key)]
	if !known || !named || group != at.group {
		c.tally.Foreign++
		return -1
	}
	return c.take(at, partition)
}

// came takes what travels without a key and without partitions, in the order of
// arrival. It returns also the group.
func (c *checker) came(payload []byte) (row, group int) {
	c.tally.Records++
	at, known := c.rows[maphash.Bytes(c.seed, payload)]
	if !known {
		c.tally.Foreign++
		return -1, -1
	}
	return c.take(at, 0), int(at.group)
}

// take notes that a row arrived; -1: not for the first time.
func (c *checker) take(at place, partition int32) int {
	if c.seen[at.index] {
		c.tally.Duplicates++
		return -1
	}
	c.seen[at.index] = true
	c.tally.Lost--
	g := &c.groups[at.group]
	if g.partition < 0 {
		g.partition = partition
	}
	if at.ordinal < g.last || partition != g.partition {
		c.tally.OutOfOrder++
	}
	g.last = max(g.last, at.ordinal)
	return int(at.index)
}

// note says when a row arrived; -1 is none.
func (c *checker) note(row int, at time.Time) {
	if row >= 0 {
		c.times[row] = at
	}
}
