package state

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/shorten"
)

// marker begins the packed form of a text that the database could not hold.
const marker = "base64:"

// Pack makes a text fit for a text column: groups, ids and header values may
// come from a broker and hold any bytes, but PostgreSQL takes neither NUL nor
// invalid UTF-8. Ordinary texts stay as they are. [Unpack] is the inverse for
// all inputs, so that a group never changes by being parked.
func Pack(s string) string {
	if storable(s) && !strings.HasPrefix(s, marker) {
		return s
	}
	return marker + base64.StdEncoding.EncodeToString([]byte(s))
}

// Unpack returns what [Pack] was given. A text that only looks packed (written
// by hand) is returned as it is.
func Unpack(s string) string {
	coded, ok := strings.CutPrefix(s, marker)
	if !ok {
		return s
	}
	b, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return s
	}
	return string(b)
}

// Clean makes a text that is only read by people, such as an error, storable, and
// at most 1 KiB long (see [shorten.Text]): what a receiver answered must never keep a
// settle from being written.
func Clean(s string) string {
	if !storable(s) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	return shorten.Text(s)
}

// PauseAddress is the address under which a pause is kept: of a group, one that no message has, so that a relay
// of an earlier version takes it neither for a pause of the route nor of an address that is used.
func PauseAddress(p adapters.Pause) string {
	if p.Group != "" {
		return Pack("group " + p.Group)
	}
	return Pack(p.Address)
}

// UnpackPause is the inverse of [PauseAddress], of a pause as its columns are.
func UnpackPause(p *adapters.Pause) {
	p.Address, p.Group = Unpack(p.Address), Unpack(p.Group)
	if p.Group != "" {
		p.Address = ""
	}
}

// PackGroup is a group as a column of pauses keeps it; empty: none.
func PackGroup(group string) string {
	if group == "" {
		return ""
	}
	return Pack(group)
}

func storable(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// EncodeMetadata returns metadata as a JSON object of packed strings.
func EncodeMetadata(meta map[string]string) string {
	packed := make(map[string]string, len(meta))
	for k, v := range meta {
		packed[Pack(k)] = Pack(v)
	}
	// A map of strings cannot fail to encode.
	b, _ := json.Marshal(packed)
	return string(b)
}

// DecodeMetadata is the inverse of [EncodeMetadata].
func DecodeMetadata(text string) (map[string]string, error) {
	var packed map[string]string
	if err := json.Unmarshal([]byte(text), &packed); err != nil {
		return nil, fmt.Errorf("metadata is not a JSON object of strings: %w", err)
	}
	meta := make(map[string]string, len(packed))
	for k, v := range packed {
		meta[Unpack(k)] = Unpack(v)
	}
	return meta, nil
}
