// Package debezium turns the settings of a connector of Debezium with its outbox event router, the JSON of Kafka Connect's API or a
// .properties file, into a configuration of Outrider that writes the same records. It copies no secret, and names each setting
// that it cannot take.
package debezium
