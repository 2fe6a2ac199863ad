// Package listening feeds lanes from a Watermill Subscriber, which gets the acks.
package listening
