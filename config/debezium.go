package config

import "github.com/outriderhq/outrider/config/internal/form"

const debezium = "debezium"

// Debezium is how format debezium writes a payload, as the transform and the converter of a connector do.
type Debezium struct {
	Value     string `yaml:"value" enum:"string|json|base64" default:"string" doc:"value.converter of the connector: string is StringConverter (and BinaryDataConverter, for bytea), the payload as it is; json is JsonConverter without schemas, the payload as a JSON string; base64 is JsonConverter for bytea."`
	Expand    bool   `yaml:"expand" default:"false" doc:"table.expand.json.payload: with value: json, a payload that is a JSON object is written as one, as Debezium does: without spaces, nulls and empty arrays."`
	Tombstone bool   `yaml:"tombstone" default:"false" doc:"route.tombstone.on.empty.payload: an empty payload, or one of white space, becomes a record without a value."`
}

// check checks the section against the format.
func (d *Debezium) check(c *form.Checker, at form.Location, format string) {
	switch section := at.Child(debezium); {
	case format != debezium && *d != Debezium{Value: "string"}:
		c.Add(section.Key(), "has no effect with format %s", format).Fix("remove it, or set format: debezium")
	case d.Expand && d.Value != "json":
		c.Add(section.Child("expand"), "only JsonConverter can write an expanded payload").Fix("set value: json, or remove expand")
	}
}

func (d *Debezium) debezium() *Debezium { return d }

// DebeziumOf returns how a destination writes payloads in format debezium; nil: in another format, or as they are.
func DebeziumOf(d Destination) *Debezium {
	k, ok := d.(interface{ debezium() *Debezium })
	if !ok {
		return nil
	}
	if v := k.debezium(); v.Value != "string" || v.Tombstone {
		return v
	}
	return nil
}
