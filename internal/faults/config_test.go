package faults_test

import (
	"fmt"
	"strings"
)

// settings are the parts of a configuration that scenarios vary. Zero fields have
// the program's defaults, unless the comment says otherwise.
type settings struct {
	database    string   // URL of source and state; required
	top         []string // further lines at the top level
	poll        string   // of the source. Default: {max: 50ms}
	destination string   // in flow style, without braces; required
	window      int      // messages per lane
	middleware  string   // in flow style
	route       []string // further keys of the route
	routes      int      // how many routes like this. Default: 1
	others      []string // further destinations, as NAME: {...}
}

// text writes the configuration. No admin server, unless top asks for one.
func (s settings) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	top := strings.Join(s.top, "\n")
	if !strings.Contains(top, "admin:") {
		line("admin: {listen: off}")
	}
	line("%s", top)
	line("sources:\n  app:\n    type: postgres\n    url: %q", s.database)
	if s.poll == "" {
		s.poll = "{max: 50ms}"
	}
	line("    poll: %s", s.poll)
	line("destinations:\n  there: {%s}", s.destination)
	for _, d := range s.others {
		line("  %s", d)
	}
	line("routes:")
	for i := range max(s.routes, 1) {
		line("  orders%d:\n    from: app\n    to: there", i)
		if s.window > 0 {
			line("    window: %d", s.window)
		}
		if s.middleware != "" {
			line("    middleware: %s", s.middleware)
		}
		for _, key := range s.route {
			line("    %s", key)
		}
	}
	return b.String()
}

// lanes is the number of lanes of a route.
const lanes = 16

// toKafka is a destination on a topic.
func toKafka(brokers []string, topic string) string {
	return fmt.Sprintf("type: kafka, brokers: [%q], topic: %q", strings.Join(brokers, `", "`), topic)
}

// toHTTP is a destination at a URL.
func toHTTP(url string) string { return fmt.Sprintf("type: http, url: %q", url) }
