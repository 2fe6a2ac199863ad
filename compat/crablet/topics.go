package crablet

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/outriderhq/outrider/compat/internal/foreign"
)

// topic is one of crablet.outbox.topics.
type topic struct {
	name       string
	line       int
	all, any   []string // tags, as our match has them
	types      []string
	publishers []string
	intervals  map[string]foreign.Setting // by publisher

	exact   []string
	configs map[int]*publisherConfig
}

// publisherConfig is an item of publisher-configs.
type publisherConfig struct {
	name     string
	interval foreign.Setting
}

// match writes which events the topic has.
func (t *topic) match(w *foreign.Writer) {
	var parts, keys []string
	if all := append(slices.Clone(t.all), t.exact...); len(all) > 0 {
		parts = append(parts, "all: "+list(all))
	}
	if len(t.all) > 0 {
		keys = append(keys, "required-tags")
	}
	if len(t.exact) > 0 {
		keys = append(keys, "exact-tags")
	}
	if len(t.any) > 0 {
		parts, keys = append(parts, "any: "+list(t.any)), append(keys, "any-of-tags")
	}
	var match []string
	if len(parts) > 0 {
		match = append(match, "tags: {"+strings.Join(parts, ", ")+"}")
	}
	if len(t.types) > 0 {
		match, keys = append(match, "types: "+list(t.types)), append(keys, "event-types")
	}
	if len(match) > 0 {
		w.Line("    match: {%s} # %s", strings.Join(match, ", "), strings.Join(keys, ", "))
	}
}

func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = literal(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// topicKeys are the keys of a topic, in canonical form.
var topicKeys = []string{"requiredtags", "anyoftags", "exacttags", "publishers", "publisherconfigs", "eventtypes"}

// topics returns the topics in the order of the file. Their names are parts of keys, so the keys are read as they are written. The
// original's code has them one level deeper than its documents do, as topics.topics.NAME: both are read.
func (im *importer) topics() []*topic {
	var keys []string
	for canonical := range im.Settings {
		if strings.HasPrefix(canonical, foreign.Canonical(prefix+"topics")) {
			keys = append(keys, canonical)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		x, y := im.Settings[a], im.Settings[b]
		return cmp.Or(x.Line-y.Line, cmp.Compare(x.Key, y.Key))
	})
	var topics []*topic
	byName := map[string]*topic{}
	for _, canonical := range keys {
		s := im.Settings[canonical]
		name, rest := topicOf(tokens(s.Key))
		if name == "" {
			continue // not a key of a topic
		}
		t := byName[name]
		if t == nil {
			t = &topic{name: name, line: s.Line, intervals: map[string]foreign.Setting{}, configs: map[int]*publisherConfig{}}
			byName[name], topics = t, append(topics, t)
		}
		if im.add(t, s, rest) {
			im.Use(canonical)
		}
	}
	if len(topics) == 0 {
		im.Note(foreign.Setting{}, "the file has no topics, and so the original has one named default with all events and no publisher: the result logs them")
		return []*topic{{name: "default", publishers: []string{"LogPublisher"}}}
	}
	return slices.DeleteFunc(topics, func(t *topic) bool { return !im.finish(t) })
}

// finish puts together what several keys said, and reports whether anything publishes the topic.
func (im *importer) finish(t *topic) bool {
	for _, c := range t.configs {
		if c.interval.Value != "" {
			t.intervals[c.name] = c.interval
		}
		if c.interval.Value != "" && !slices.Contains(t.publishers, c.name) {
			im.Note(c.interval, "%s is of publisher %q, which the topic does not have", c.interval.Key, c.name)
		}
	}
	if len(t.publishers) == 0 {
		im.Note(foreign.Setting{Line: t.line}, "topic %s has no publishers: it is left out", t.name)
		return false
	}
	return true
}

// add adds a setting to a topic; false: it is none of a topic's.
func (im *importer) add(t *topic, s foreign.Setting, rest []string) bool {
	value := im.plain(s)
	switch foreign.Canonical(rest[0]) {
	case "requiredtags":
		t.all = append(t.all, split(value)...)
	case "anyoftags":
		t.any = append(t.any, split(value)...)
	case "eventtypes":
		t.types = append(t.types, split(value)...)
	case "publishers":
		for _, p := range split(value) {
			if !slices.Contains(t.publishers, p) {
				t.publishers = append(t.publishers, p)
			}
		}
	case "exacttags":
		if len(rest) < 2 {
			return false
		}
		t.exact = append(t.exact, strings.Join(rest[1:], ".")+"="+value)
	case "publisherconfigs":
		if len(rest) != 3 {
			return false
		}
		i, err := strconv.Atoi(rest[1])
		if err != nil {
			return false
		}
		if t.configs[i] == nil {
			t.configs[i] = &publisherConfig{}
		}
		switch foreign.Canonical(rest[2]) {
		case "name":
			t.configs[i].name = value
		case "pollingintervalms":
			s.Value = value
			t.configs[i].interval = s
		default:
			return false
		}
	}
	return true
}

// plain is a value without placeholders, which have no place in what it becomes a part of.
func (im *importer) plain(s foreign.Setting) string {
	var b strings.Builder
	for _, p := range im.Resolve(s) {
		if p.Name != "" {
			im.Note(s, "%s: the variable %s cannot be kept here; its default is used: correct the result", s.Key, p.Name)
		}
		b.WriteString(p.Text + p.Fallback)
	}
	return strings.TrimSpace(b.String())
}

// split takes a list with commas apart.
func split(text string) (out []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// tokens takes a key apart: at dots, and at brackets, in which dots are part of a name.
func tokens(key string) (out []string) {
	var b strings.Builder
	inside := false
	next := func() {
		if b.Len() > 0 {
			out = append(out, b.String())
		}
		b.Reset()
	}
	for _, r := range key {
		switch {
		case r == '[' && !inside:
			next()
			inside = true
		case r == ']' && inside:
			next()
			inside = false
		case r == '.' && !inside:
			next()
		default:
			b.WriteRune(r)
		}
	}
	next()
	return out
}

// topicOf takes crablet.outbox.topics.NAME.KEY... apart; an empty name: it is no such key.
func topicOf(tokens []string) (name string, rest []string) {
	const from = 3
	for i := from + 1; i < len(tokens); i++ {
		if !slices.Contains(topicKeys, foreign.Canonical(tokens[i])) {
			continue
		}
		names := tokens[from:i]
		if names[0] == "topics" && len(names) > 1 {
			names = names[1:]
		}
		return strings.Join(names, "."), tokens[i:]
	}
	return "", nil
}
