package queuetable

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/queue"
	"github.com/outriderhq/outrider/internal/shorten"
)

// document is a document as a scan reads it, without its payload.
type document struct {
	key     string
	id      bson.RawValue
	name    bson.RawValue // of the group
	created bson.RawValue
	status  adapters.RowStatus
	token   string
	claimed time.Time
}

// slim are the fields of a [document].
func (q *Queue) slim() bson.D {
	f := &q.fields
	return fields(f.Key, f.Group, f.Created, f.Status, f.Claimed, ClaimField)
}

// read takes a document apart. The values are copies: a cursor uses its memory again.
func (q *Queue) read(raw bson.Raw) document {
	f := &q.fields
	d := document{id: copied(raw.Lookup(f.Key)), name: copied(raw.Lookup(f.Group)), created: copied(raw.Lookup(f.Created))}
	d.key, d.token = keyOf(d.id), text(raw.Lookup(ClaimField))
	d.claimed, _ = raw.Lookup(f.Claimed).TimeOK()
	d.status = queue.StatusOf(q.layout, text(raw.Lookup(f.Status)))
	return d
}

func copied(v bson.RawValue) bson.RawValue {
	return bson.RawValue{Type: v.Type, Value: append([]byte(nil), v.Value...)}
}

// text is a string, "" where there is none.
func text(v bson.RawValue) string {
	s, _ := v.StringValueOK()
	return s
}

// textOf is a value as text.
func textOf(v bson.RawValue) string {
	if v.IsZero() {
		return ""
	}
	if s, ok := v.StringValueOK(); ok {
		return s
	}
	if id, ok := v.ObjectIDOK(); ok {
		return id.Hex()
	}
	if n, ok := v.AsInt64OK(); ok && v.Type != bson.TypeDouble && v.Type != bson.TypeDecimal128 {
		return strconv.FormatInt(n, 10)
	}
	return v.String()
}

// keyOf names a document as no other one of its collection: by the text of its id. Text that reads like an id of another type is in quotes, as JSON.
func keyOf(id bson.RawValue) string {
	if _, other := untext(text(id)); other && id.Type == bson.TypeString {
		return written(id)
	}
	return textOf(id)
}

// idOf is the id of the document that a key names.
func idOf(key string) bson.RawValue {
	if v, ok := untext(key); ok {
		return v
	}
	return valueOf(key)
}

// untext is the id of another type that a key reads like, or the text that is in quotes.
func untext(key string) (v bson.RawValue, ok bool) {
	if id, err := bson.ObjectIDFromHex(key); err == nil && id.Hex() == key {
		return valueOf(id), true
	}
	if n, err := strconv.ParseInt(key, 10, 64); err == nil && strconv.FormatInt(n, 10) == key {
		return valueOf(n), true
	}
	if key != "" && (key[0] == '{' || key[0] == '"' || key == "null" || key == "true" || key == "false") {
		if v, err := value(key); err == nil && written(v) == key {
			if v.Type == bson.TypeString {
				_, ok = untext(text(v))
				return v, ok
			}
			return v, true
		}
	}
	return v, false
}

// valueOf is a value as documents have it.
func valueOf[T string | int64 | bson.ObjectID](of T) bson.RawValue {
	kind, data, _ := bson.MarshalValue(of) // these types have no errors
	return bson.RawValue{Type: kind, Value: data}
}

// idsOf are the ids that an operator may mean: text, and what has the key.
func idsOf(id string) bson.A { return bson.A{id, idOf(id)} }

// nameOf is the name of a document's group; ok is false for one that has no text there.
func (t *table) nameOf(v bson.RawValue) (name string, ok bool) {
	if v.IsZero() || v.Type == bson.TypeNull {
		return t.q.layout.DefaultGroup, true
	}
	return v.StringValueOK()
}

// decode makes a row of a whole document. Its Err has the values that cannot be decoded; the rest of the row is there all the same.
func (t *table) decode(raw bson.Raw) *adapters.Row {
	f := &t.q.fields
	row := &adapters.Row{ID: textOf(raw.Lookup(f.Key)), Kind: t.Kind, Type: text(raw.Lookup(f.Type))}
	var errs [4]error
	if name, ok := t.nameOf(raw.Lookup(f.Group)); ok {
		row.Group = queue.GroupOf(t.Table, name)
	} else {
		errs[0] = fmt.Errorf("%s is a %s, not text", f.Group, raw.Lookup(f.Group).Type)
	}
	row.Slot = adapters.SlotOf(row.Group, row.ID)
	created, ok := raw.Lookup(f.Created).TimeOK()
	if row.CreatedAt = created; !ok {
		errs[1] = fmt.Errorf("%s is a %s, not a date", f.Created, typeName(raw.Lookup(f.Created)))
	}
	row.Position = max(row.CreatedAt.UnixMicro(), 1)
	errs[2] = t.content(row, raw.Lookup(f.Payload))
	errs[3] = row.Limit()
	if err := errors.Join(errs[:]...); err != nil {
		row.Err = fmt.Errorf("collection %s, document %q cannot be decoded: %w", t.Name, shorten.To(row.ID, 128), err)
	}
	return row
}

func typeName(v bson.RawValue) string {
	if v.IsZero() {
		return "missing field"
	}
	return v.Type.String()
}

// content takes the payload over, and the type out of it.
func (t *table) content(row *adapters.Row, v bson.RawValue) error {
	field := t.q.fields.Payload
	payload, ok := v.StringValueOK()
	switch {
	case !ok:
		return fmt.Errorf("%s is a %s, not text", field, typeName(v))
	case int64(len(payload)) > t.q.maxRow:
		return fmt.Errorf("payload: %w", adapters.PayloadTooLarge(int64(len(payload)), t.q.maxRow, "make the document wait again: set its status back"))
	}
	row.Payload = []byte(payload)
	if err := queue.JSON(row, t.q.layout); err != nil {
		return fmt.Errorf("%s %w", field, err)
	}
	return nil
}

// attempts are those that a document counts.
func (q *Queue) attempts(raw bson.Raw) int {
	n, _ := raw.Lookup(q.fields.Attempts).AsInt64OK()
	return int(max(n, 0))
}
