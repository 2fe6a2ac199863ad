package console

import (
	"bytes"
	"encoding/json"
)

// Masked stands for a value that is not shown.
const Masked = "***"

// MaskedJSON is a payload with its names and shape, each value [Masked]; ok is false of a
// payload that is not JSON.
func MaskedJSON(payload []byte) (masked any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	var value any
	if !json.Valid(payload) || decoder.Decode(&value) != nil {
		return nil, false
	}
	return mask(value), true
}

// mask replaces every value and keeps names and shape.
func mask(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name := range value {
			value[name] = mask(value[name])
		}
		return value
	case []any:
		for i := range value {
			value[i] = mask(value[i])
		}
		return value
	}
	return Masked
}
