package outboxtable

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/outbox"
	"github.com/outriderhq/outrider/outbox/format"
)

// record is what is written of a message.
type record struct {
	msg            *message.Message // with the templates' values, and marked as bytes where it is no JSON
	kind           string
	groupTemplated bool // its group is a template's
	index          int  // in the batch
}

func (r *record) meta(key string) string { return r.msg.Metadata[key] }

// binary reports whether the payload is bytes.
func (r *record) binary() bool { return r.meta(outbox.MetaEncoding) == outbox.EncodingBytes }

// record applies the templates to a message. The message stays as it is: it is delivered again after a failure.
func (d *Destination) record(msg *message.Message) (r record, err error) {
	r = record{msg: msg, kind: msg.Metadata[outbox.MetaKind]}
	change := func(key, value string) {
		if r.msg == msg {
			r.msg = &message.Message{UUID: msg.UUID, Payload: msg.Payload, Metadata: maps.Clone(msg.Metadata)}
		}
		if key == "" {
			r.msg.UUID = value
			return
		}
		r.msg.Metadata[key] = value
	}
	for _, t := range []struct {
		name, key string
		of        *format.Address
	}{{"id", "", d.templates.id}, {"type", outbox.MetaType, d.templates.typ}, {"group", outbox.MetaGroup, d.templates.group}} {
		if t.of == nil || t.key == outbox.MetaGroup && msg.Metadata[t.key] == "" {
			continue
		}
		text, err := t.of.Render(msg)
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.name, err)
		}
		change(t.key, text)
		r.groupTemplated = r.groupTemplated || t.key == outbox.MetaGroup
	}
	if !r.binary() && outbox.CheckJSON(msg.Payload) != nil {
		change(outbox.MetaEncoding, outbox.EncodingBytes)
	}
	return r, nil
}

// headers are the application's own, as a JSON object; "" for none. Those of except have columns of their own. With own
// come Outrider's, for layouts that keep there what they have no columns for.
func (r *record) headers(except map[string]bool, own []string) string {
	out := map[string]string{}
	for name, value := range r.msg.Metadata {
		if !strings.HasPrefix(name, outbox.HeaderPrefix) && !except[name] {
			out[name] = value
		}
	}
	for _, name := range own {
		if value := r.meta(name); value != "" {
			out[name] = value
		}
	}
	if len(out) == 0 {
		return ""
	}
	text, _ := json.Marshal(out) // a map of strings cannot fail to encode
	return string(text)
}
