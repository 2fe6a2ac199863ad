package adapters

import "context"

// PartitionedSource is implemented by sources whose slots are the partitions of a log that assigns them to the members of a group, as
// Kafka does. A slot is a partition, and each has positions of its own.
//
// The group decides which slots an instance wants. The state store decides which it has, as for every other source: a slot that the group has
// moved is worked after its former owner has released it, or after that one's lease.
type PartitionedSource interface {
	Source

	// Lanes is how many lanes a route has: at least as many as there are partitions. It never changes.
	Lanes() int

	// StartIn is [Source].Start for one slot.
	StartIn(ctx context.Context, slot int, at Start) (Cursor, error)

	// Starts returns the positions at which all slots begin, as a seek places them.
	Starts(ctx context.Context, at Start) (map[int]int64, error)

	// ValidateIn is [Source].Validate for the cursor of one slot.
	ValidateIn(ctx context.Context, slot int, c Cursor) error

	// Join takes part in the group from now on, until Leave. It does not wait for the group.
	Join(calls GroupCalls) error

	// Owned returns the slots that the group has given to this instance, and how many the group has.
	Owned() (slots []int, of int)

	// Commit tells the group up to which positions slots are settled without a gap. It is for programs that show the lag, and for those that
	// read on in the place of this one: the state store says where a lane continues. Slots that are not ours are left out.
	Commit(ctx context.Context, settled map[int]int64) error

	// Leave ends the membership, so that others get the slots at once.
	Leave()
}

// GroupCalls are called by a [PartitionedSource] that has joined its group.
type GroupCalls struct {
	Changed func()            // [PartitionedSource].Owned has changed
	Revoked func(slots []int) // the slots go to other instances; it returns when they are released
	Lost    func(slots []int) // the slots are another instance's already, perhaps
}
