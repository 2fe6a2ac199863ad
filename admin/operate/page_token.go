package operate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/adapters"
)

// PageToken is the place of a message in the list of [Operator.ParkedAfter]: the messages of one state store after those of
// another, then the dead rows of queues. The zero value is before the first.
type PageToken struct {
	Store  int                // which of the state stores, in the order of the configuration
	Parked adapters.ParkedKey // in that store
	Source string             // of a dead row: its queue; empty: the message is in the state store
	Dead   adapters.DeadKey   // and its place there
}

// tokenPrefix begins texts of places that are no keys of messages.
const tokenPrefix = "~"

// tokenFields is a place as text.
type tokenFields struct {
	Store   int    `json:"s,omitempty"`
	Route   string `json:"r,omitempty"`
	Slot    int    `json:"l,omitempty"`
	Seq     int64  `json:"n,omitempty"`
	Source  string `json:"q,omitempty"`
	Table   string `json:"t,omitempty"`
	Created string `json:"c,omitempty"`
	Key     string `json:"k,omitempty"`
	Waits   bool   `json:"w,omitempty"`
}

// String is the text of a place for links: route/slot/seq in the first state store, and something without a slash elsewhere.
func (p PageToken) String() string {
	if p == (PageToken{}) {
		return ""
	}
	if p.Store == 0 && p.Source == "" {
		return p.Parked.Route + "/" + strconv.Itoa(p.Parked.Slot) + "/" + strconv.FormatInt(p.Parked.Seq, 10)
	}
	text, _ := json.Marshal(tokenFields{p.Store, p.Parked.Route, p.Parked.Slot, p.Parked.Seq, p.Source, p.Dead.Table, p.Dead.Created, p.Dead.Key, p.Dead.Retrying}) // strings and numbers have no error
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(text)
}

// ParsePageToken reads what [PageToken.String] writes. Names of routes may hold slashes.
func ParsePageToken(text string) (p PageToken, err error) {
	wrong := fmt.Errorf("%q: %w", text, ErrPageToken)
	if text == "" {
		return p, nil
	}
	if token, ok := strings.CutPrefix(text, tokenPrefix); ok && !strings.Contains(token, "/") {
		raw, err := base64.RawURLEncoding.DecodeString(token)
		var t tokenFields
		if err != nil || json.Unmarshal(raw, &t) != nil || t.Store < 0 {
			return p, wrong
		}
		p = PageToken{Store: t.Store, Parked: adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: t.Route, Slot: t.Slot}, Seq: t.Seq},
			Source: t.Source, Dead: adapters.DeadKey{Table: t.Table, Created: t.Created, Key: t.Key, Retrying: t.Waits}}
		if p.String() != text {
			return PageToken{}, wrong
		}
		return p, nil
	}
	parts := strings.Split(text, "/")
	n := len(parts)
	if n < 3 {
		return p, wrong
	}
	slot, err1 := strconv.Atoi(parts[n-2])
	seq, err2 := strconv.ParseInt(parts[n-1], 10, 64)
	if err1 != nil || err2 != nil || slot < 0 || slot >= adapters.MaxLanes {
		return p, wrong
	}
	p.Parked = adapters.ParkedKey{LaneRef: adapters.LaneRef{Route: strings.Join(parts[:n-2], "/"), Slot: slot}, Seq: seq}
	return p, nil
}

// tokenError makes [ErrPageToken] of what a database says of a place that it cannot read.
func tokenError(after adapters.DeadKey, err error) error {
	var refused interface{ SQLState() string }
	if after != (adapters.DeadKey{}) && errors.As(err, &refused) && strings.HasPrefix(refused.SQLState(), "22") { // data exceptions
		return fmt.Errorf("%w (%w)", ErrPageToken, err)
	}
	return err
}

// behind leaves out the sources before the place's, and returns where the first that is left continues.
func (p PageToken) behind(sources []*deadSource) ([]*deadSource, adapters.DeadKey, error) {
	if p.Source == "" {
		return sources, adapters.DeadKey{}, nil
	}
	at := slices.IndexFunc(sources, func(s *deadSource) bool { return s.name == p.Source })
	if at < 0 {
		return nil, adapters.DeadKey{}, ErrPageToken
	}
	return sources[at:], p.Dead, nil
}
