// Package model says what a relay may do with a table, as a state machine, and checks it in two ways.
//
// [Rules], and [QueueRules] for tables whose rows have a status, are what can be seen from outside: transactions that insert rows, deliveries, and
// what relays write of lanes, parked messages and rows. They refuse an event after which a message is lost, settled twice or out of order. A
// trace of a real run, which triggers and a receiver have recorded, is such a sequence of events ([Replay], [ReplayQueue]).
//
// [System] and [QueueSystem] are how relays work: they acquire lanes, read, deliver, park and settle, or claim, deliver, settle and recover; they
// crash, and others take their lanes or claims while they still send. [Explore] and [ExploreQueue] make every sequence of their steps within
// small bounds, and give each step's event to the rules. So the rules hold for the design, and the seeded faults of [Fault] show that they
// would not hold for others.
package model
