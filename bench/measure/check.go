// Package measure has the servers of the benchmark, the messages that are written,
// the places where they arrive, and the checks of what arrived.
package measure

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"
)

// Checker compares the arrived messages with the table. It identifies a message
// by its payload, the only part that every peer passes on unchanged.
type Checker struct {
	seed   maphash.Seed
	rows   map[uint64]place // by the payload's hash
	seen   []bool           // by place.index
	Times  []time.Time      // by place.index; zero: not known
	names  map[string]uint32
	groups []groupState
	tally  Tally
}

// place is a row's index in the table and in its group.
type place struct {
	index   uint32 // in the table
	group   uint32
	ordinal uint32 // within the group, from 1
}

// groupState counts the arrived rows of a group.
type groupState struct {
	rows      uint32 // expected
	last      uint32 // the highest ordinal that has arrived
	partition int32  // -1: none yet
}

// Tally is the result of a check.
type Tally struct {
	Records    int // that arrived
	Lost       int // rows of which no record arrived
	Duplicates int // records of rows that had arrived already
	OutOfOrder int // first records that came after a later row of their group, or in another partition
	Foreign    int // records of no row, or with another key than their row's group
	Mixed      int // requests with records of several groups
	Unsigned   int // requests whose signature is wrong
}

// err is nil when every row arrived once and in order.
func (t Tally) err() error {
	if t.Lost+t.Duplicates+t.OutOfOrder+t.Foreign+t.Mixed+t.Unsigned == 0 {
		return nil
	}
	return fmt.Errorf("of %d records: lost %d, duplicates %d, out of order %d, foreign %d; requests of several groups %d, wrongly signed %d",
		t.Records, t.Lost, t.Duplicates, t.OutOfOrder, t.Foreign, t.Mixed, t.Unsigned)
}

// Err is nil when every row arrived once and, unless unordered, in order.
func (c *Checker) Err(unordered bool) error {
	t := c.tally
	if unordered {
		t.OutOfOrder = 0
	}
	return t.err()
}

// NewChecker returns a checker that expects nothing yet.
func NewChecker() *Checker {
	return &Checker{seed: maphash.MakeSeed(), rows: map[uint64]place{}, names: map[string]uint32{}}
}

// Expect adds the next row of the table. No two may have the same payload.
func (c *Checker) Expect(group, payload []byte) error {
	g, ok := c.names[string(group)]
	if !ok {
		g = uint32(len(c.groups))
		c.names[string(group)] = g
		c.groups = append(c.groups, groupState{partition: -1})
	}
	hash := maphash.Bytes(c.seed, payload)
	if _, twice := c.rows[hash]; twice {
		return errors.New("two rows of the backlog have the same payload, so they cannot be told apart")
	}
	c.groups[g].rows++
	c.rows[hash] = place{index: uint32(len(c.rows)), group: g, ordinal: c.groups[g].rows}
	return nil
}

// Reset forgets what arrived.
func (c *Checker) Reset() {
	c.seen = make([]bool, len(c.rows))
	c.Times = make([]time.Time, len(c.rows))
	c.tally = Tally{Lost: len(c.rows)}
	for g := range c.groups {
		c.groups[g].last, c.groups[g].partition = 0, -1
	}
}

// arrived takes the records of a partition in their order; records of different
// partitions may come in any order. It returns the index of the record's row, or
// -1 for an unknown record.
func (c *Checker) arrived(partition int32, key, payload []byte) int {
	c.tally.Records++
	at, known := c.rows[maphash.Bytes(c.seed, payload)]
	group, named := c.names[string(key)]
	if !known || !named || group != at.group {
		c.tally.Foreign++
		return -1
	}
	return c.take(at, partition)
}

// came takes a message without key and partition, in the order of arrival. It
// also returns the group.
func (c *Checker) came(payload []byte) (row, group int) {
	c.tally.Records++
	at, known := c.rows[maphash.Bytes(c.seed, payload)]
	if !known {
		c.tally.Foreign++
		return -1, -1
	}
	return c.take(at, 0), int(at.group)
}

// take records that a row arrived. It returns -1 for a duplicate.
func (c *Checker) take(at place, partition int32) int {
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

// note records when a row arrived; row -1 is ignored.
func (c *Checker) note(row int, at time.Time) {
	if row >= 0 {
		c.Times[row] = at
	}
}
