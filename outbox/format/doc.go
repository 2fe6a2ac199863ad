// Package format turns a message into what travels to a receiver. The formats
// are shared by all destinations, so that changing the destination of a route
// does not change what its consumers see more than the transport requires.
//
//   - raw: the payload alone; id, type and the metadata in headers.
//   - cloudevents: CloudEvents 1.0. Binary (attributes as headers of the
//     payload) where the transport has headers, structured JSON otherwise.
//   - watermill: what Watermill's own adapters write: the UUID in a header that
//     the adapter names, and every metadata entry as a header.
//   - debezium: what Debezium's outbox event router writes: the id and the
//     application's headers. See [DebeziumValue] for the payload.
//
// Except by [DebeziumValue], a payload is never re-serialised: its bytes are passed on or embedded as they
// are. The event id always travels, and so do position and lane when the
// message has them. Every error of the package is permanent ([outbox.Permanent]):
// the same message can never be encoded.
//
// Not in this package: it opens no connection and knows no transport's
// limits or escaping rules; adapters do.
package format

import "fmt"

// Format names a format as configuration does.
type Format string

// The formats.
const (
	Raw         Format = "raw"
	CloudEvents Format = "cloudevents"
	Watermill   Format = "watermill"
	Debezium    Format = "debezium"
)

// Parse returns the format of that name; the empty name is [Raw].
func Parse(name string) (Format, error) {
	switch f := Format(name); f {
	case "":
		return Raw, nil
	case Raw, CloudEvents, Watermill, Debezium:
		return f, nil
	}
	return "", fmt.Errorf("format %q is unknown: use raw, cloudevents, watermill or debezium", name)
}
