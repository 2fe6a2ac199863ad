// Package broker has what destinations at message brokers share: addresses that a template renders and a list limits, the choice
// of a wire format's headers, and what becomes of the messages behind one that was not delivered.
package broker
