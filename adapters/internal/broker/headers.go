package broker

import "github.com/outriderhq/outrider/outbox/format"

// Headers returns how a format names what is known of a message. watermill is the header in which Watermill's adapter for the broker
// keeps the id; source and prefix are of CloudEvents in binary mode, such as "ce_" on Kafka. With format debezium source is the
// connector's topic.prefix.
func Headers(f format.Format, source, prefix, watermill string) format.Headers {
	switch f {
	case format.CloudEvents:
		return format.CloudEventHeaders(source, prefix)
	case format.Watermill:
		return format.WatermillHeaders(watermill)
	case format.Debezium:
		return format.DebeziumHeaders(source)
	default:
		return format.RawHeaders
	}
}
