// Package model says what a relay may do with a log table, as a state machine, and checks it in two ways.
//
// [Rules] are what can be seen from outside: transactions that insert rows, deliveries, and what relays write of lanes and parked
// messages. They refuse an event after which a message is lost, settled twice or out of order. A trace of a real run, which triggers and
// a receiver have recorded, is such a sequence of events ([Replay]).
//
// [System] is how relays work: they acquire lanes, read, deliver, park and settle; they crash, and others take their lanes while they still
// send. [Explore] makes every sequence of their steps within small bounds, and gives each step's event to the rules. So the rules hold for the
// design, and the seeded faults of [Fault] show that they would not hold for others.
package model
