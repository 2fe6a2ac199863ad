package outbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outriderhq/outrider/outbox"
)

func TestBuildKeepsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.FixedZone("", 3600))
	e, err := outbox.New("order.created").ID("evt-1").Group("customer-7").Aggregate("order", "42").Tenant("acme").
		Tag("region", "eu").Header("traceparent", "00-ab").OccurredAt(at).JSON(map[string]string{"a": "b"}).Build()
	must(t, err)
	got := []string{e.ID(), e.Type(), e.Group(), e.AggregateType(), e.AggregateID(), e.Tenant(), string(e.Payload())}
	want := []string{"evt-1", "order.created", "customer-7", "order", "42", "acme", `{"a":"b"}`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !maps.Equal(e.Tags(), map[string]string{"region": "eu"}) || !maps.Equal(e.Headers(), map[string]string{"traceparent": "00-ab"}) {
		t.Errorf("tags %v, headers %v", e.Tags(), e.Headers())
	}
	if want := time.Date(2026, 3, 4, 4, 6, 7, 123456000, time.UTC); e.OccurredAt() != want {
		t.Errorf("occurred at %v, want %v: UTC, in microseconds", e.OccurredAt(), want)
	}
	if e.Binary() {
		t.Error("a JSON payload is called binary")
	}
}

func TestBuildFillsInTimeAndID(t *testing.T) {
	t.Parallel()
	before := time.Now().Truncate(time.Microsecond)
	b := outbox.New("a").Bytes(nil)
	first, err := b.Build()
	must(t, err)
	second, err := b.Build()
	must(t, err)
	if at := first.OccurredAt(); at.Before(before) || at.After(time.Now()) {
		t.Errorf("occurred at %v, want the time of Build", at)
	}
	if len(first.ID()) != 26 || first.ID() >= second.ID() {
		t.Errorf("ids %q and %q, want ascending ULIDs", first.ID(), second.ID())
	}
}

func TestEnvelopeCannotBeChanged(t *testing.T) {
	t.Parallel()
	raw, blob := []byte(`{"a":1}`), []byte("blob")
	b := outbox.New("a").Tag("k", "v").Header("h", "v").RawJSON(raw)
	e, err := b.Build()
	must(t, err)
	bin, err := outbox.New("a").Bytes(blob).Build()
	must(t, err)

	raw[2], blob[0] = 'X', 'X'
	b.Tag("k", "changed").Header("h", "changed")
	e.Tags()["k"] = "changed"
	e.Headers()["h"] = "changed"
	e.Payload()[0] = 'X'
	bin.Payload()[0] = 'X'

	if e.Tags()["k"] != "v" || e.Headers()["h"] != "v" {
		t.Errorf("tags %v, headers %v changed after Build", e.Tags(), e.Headers())
	}
	if string(e.Payload()) != `{"a":1}` || string(bin.Payload()) != "blob" {
		t.Errorf("payloads %q and %q changed after Build", e.Payload(), bin.Payload())
	}
}

// base is an envelope that is right; each wrong input spoils one thing.
func base() *outbox.Builder { return outbox.New("a.b").Bytes([]byte("x")) }

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", outbox.MaxNameBytes+1)
	for name, tt := range map[string]struct {
		builder     *outbox.Builder
		field, text string
	}{
		"no type":           {outbox.New("").Bytes(nil), "type", "required"},
		"long type":         {outbox.New(long).Bytes(nil), "type", "256 bytes long, the limit is 255"},
		"control in type":   {outbox.New("a\nb").Bytes(nil), "type", "control character"},
		"type not UTF-8":    {outbox.New("a\xff").Bytes(nil), "type", "UTF-8"},
		"empty id":          {base().ID(""), "id", "leave ID out"},
		"long id":           {base().ID(long), "id", "255"},
		"NUL in group":      {base().Group("a\x00"), "group", "control character"},
		"long group":        {base().Group(long), "group", "255"},
		"aggregate type":    {base().Aggregate("a\x7f", "1"), "aggregate_type", "control character"},
		"aggregate id":      {base().Aggregate("a", "\xff"), "aggregate_id", "UTF-8"},
		"tenant":            {base().Tenant(long), "tenant", "255"},
		"empty tag key":     {base().Tag("", "v"), `tag ""`, "has an empty key"},
		"tag not UTF-8":     {base().Tag("k", "\xff"), `tag "k"`, "UTF-8"},
		"long header key":   {base().Header(long, "v"), `header "xxx`, "255"},
		"NUL in header":     {base().Header("k", "a\x00"), `header "k"`, "NUL"},
		"our prefix":        {base().Header("outrider_x", "v"), `header "outrider_x"`, "Outrider's own"},
		"our prefix, upper": {base().Header("Outrider_X", "v"), `header "Outrider_X"`, "Outrider's own"},
		"much metadata":     {base().Header("k", strings.Repeat("v", outbox.MaxMetadataBytes)), "tags and headers", "65537 bytes, the limit is 65536"},
		"zero time":         {base().OccurredAt(time.Time{}), "occurred_at", "zero time"},
		"year 10000":        {base().OccurredAt(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), "occurred_at", "years 1 to 9999"},
		"no payload":        {outbox.New("a"), "payload", "one of JSON, RawJSON and Bytes"},
		"two payloads":      {base().JSON(1), "payload", "set 2 times"},
		"large payload":     {outbox.New("a").Bytes(make([]byte, outbox.MaxPayloadBytes+1)), "payload", "1048577 bytes, the limit is 1048576; store large content elsewhere"},
		"large, no JSON":    {outbox.New("a").RawJSON(bytes.Repeat([]byte("{"), outbox.MaxPayloadBytes+1)), "payload", "1048577 bytes, the limit is 1048576; store large content elsewhere"},
		"unencodable":       {outbox.New("a").JSON(make(chan int)), "payload", "unsupported type: chan int"},
		"nil JSON":          {outbox.New("a").RawJSON(nil), "payload", "not valid JSON"},
		"cut JSON":          {outbox.New("a").RawJSON([]byte(`{"a":`)), "payload", "not valid JSON (at byte 5"},
		"JSON not UTF-8":    {outbox.New("a").RawJSON([]byte("\"\xff\"")), "payload", "UTF-8"},
		"NUL in JSON":       {outbox.New("a").JSON("a\x00b"), "payload", `\u0000`},
		"surrogate in JSON": {outbox.New("a").RawJSON([]byte(`"\ud800"`)), "payload", "surrogate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.builder.Build()
			var e *outbox.EnvelopeError
			if !errors.As(err, &e) || len(e.Fields) != 1 {
				t.Fatalf("got %v, want one problem", err)
			}
			if f := e.Fields[0]; !strings.HasPrefix(f.Field, tt.field) || !strings.Contains(f.Problem, tt.text) {
				t.Errorf("got %q, want field %q with %q", f.Error(), tt.field, tt.text)
			}
		})
	}
}

func TestBuildTakesTheLimitsThemselves(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("x", outbox.MaxNameBytes)
	_, err := outbox.New(name).ID(name).Group(name).Aggregate(name, name).Tenant(name).
		Header("k", strings.Repeat("v", outbox.MaxMetadataBytes-1)).
		Bytes(make([]byte, outbox.MaxPayloadBytes)).Build()
	must(t, err)
}

func TestBuildReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	_, err := outbox.New("bad\ttype").Group("\x01").Header("outrider_lane", "secret-value").Build()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`"bad\ttype"`, "type: ", "group: ", `header "outrider_lane": `, "payload: is required"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret-value") {
		t.Errorf("a header's value is in the error: %v", err)
	}
	var f outbox.FieldError
	if !errors.As(err, &f) || f.Field != "type" {
		t.Errorf("errors.As found %+v, want the first field", f)
	}
}

func TestCheckJSONReadsEscapesAsJSONDoes(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`"\u0001"`: true, `"\\u0000"`: true, `"\\\u0000"`: false, `"a\u0000"`: false, `{"\u0000":1}`: false,
		`"\ud83d\ude00"`: true, `"\uD83D\uDE00"`: true, `"\ude00"`: false, `"\ud83d"`: false, `"\ud83dx\ude00"`: false,
		`"\ud83d\\ude00"`: false, `"\ud83d\ud83d\ude00"`: false, `"\n\"\\"`: true, ` [1, null] `: true, `01`: false, ``: false,
	} {
		if err := outbox.CheckJSON([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzBuild(f *testing.F) {
	f.Add("order.created", "evt-1", "customer-7", "traceparent", "00-ab", []byte(`{"a":1}`), true)
	f.Add("", "", "\x00", "outrider_x", "\xff", []byte(`"\u0000"`), true)
	f.Add("a", "b", "", "", "", []byte{0, 255}, false)
	f.Fuzz(func(t *testing.T, typ, id, group, key, value string, payload []byte, asJSON bool) {
		b := outbox.New(typ).ID(id).Group(group).Tag(key, value).Header(key, value)
		if asJSON {
			b.RawJSON(payload)
		} else {
			b.Bytes(payload)
		}
		e, err := b.Build()
		if err != nil {
			var list *outbox.EnvelopeError
			if !errors.As(err, &list) || len(list.Fields) == 0 || e.Type() != "" {
				t.Fatalf("error %v with envelope %+v", err, e)
			}
			return
		}
		if e.Type() != typ || e.ID() != id || e.Group() != group || e.Headers()[key] != value || e.Tags()[key] != value || !bytes.Equal(e.Payload(), payload) {
			t.Fatalf("built something else: %+v", e)
		}
		if typ == "" || id == "" || key == "" || len(payload) > outbox.MaxPayloadBytes || strings.ContainsAny(typ+id+group+key, "\x00\n\x7f") ||
			strings.HasPrefix(key, outbox.HeaderPrefix) || asJSON && !json.Valid(payload) {
			t.Fatalf("accepted: %+v", e)
		}
	})
}
