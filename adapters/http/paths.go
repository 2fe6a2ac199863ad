package http

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/outriderhq/outrider/adapters/internal/httpx"
	"github.com/outriderhq/outrider/outbox"
)

// addresses returns where messages go by their kind; nil when all go to the URL.
// An error does not quote the URL.
func (c Config) addresses() (map[string]string, error) {
	if c.Paths == nil {
		return nil, nil
	}
	if strings.ContainsAny(c.URL, "?#") || strings.Contains(c.URL, "{{") {
		return nil, errors.New("url: paths are appended to it by the kind of the messages: give it without query and placeholders")
	}
	out := make(map[string]string, len(c.Paths))
	for kind, path := range c.Paths {
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "{{") {
			return nil, fmt.Errorf("paths: %q for kind %q is not a path: begin it with a slash and use no placeholders", path, kind)
		}
		target, err := httpx.NewTarget(strings.TrimRight(c.URL, "/") + path)
		if err != nil {
			return nil, nil //nolint:nilerr // the error of the URL has been reported
		}
		if out[kind], err = target.Address(message.NewMessage("", nil)); err != nil {
			return nil, fmt.Errorf("paths: kind %q: %w", kind, err)
		}
	}
	return out, nil
}

// pathOf is the address of a message's kind.
func (d *Destination) pathOf(msg *message.Message) (string, error) {
	kind := msg.Metadata[outbox.MetaKind]
	address, ok := d.paths[kind]
	if !ok {
		known := slices.DeleteFunc(slices.Sorted(maps.Keys(d.paths)), func(k string) bool { return k == "" })
		return "", outbox.Permanent(fmt.Errorf("http: there is no path for messages of kind %q; there are paths for %s",
			kind, strings.Join(known, ", ")))
	}
	return address, nil
}
