package config

// HTTPSource takes messages by HTTP, as watermill-http's Publisher sends them. They
// have no cursor: what is not delivered at once is parked in the state store.
type HTTPSource struct {
	Listen      string   `yaml:"listen" required:"true" doc:"Address as host:port. An address that other machines can reach needs tokens_file. Only the instance that runs the source's route listens."`
	Path        string   `yaml:"path" default:"/" doc:"Path of the requests: POST with the headers Message-Uuid and Message-Metadata, and the payload as the body."`
	Tokens      []Secret `yaml:"tokens_file" file:"lines" doc:"File with the bearer tokens that requests may use, one per line; blank lines and lines that begin with # are ignored."`
	MaxRow      Size     `yaml:"max_row" default:"16MiB" min:"64KiB" max:"512MiB" doc:"Largest payload; a larger one is answered with 413."`
	MaxRequests int      `yaml:"max_requests" default:"256" min:"1" max:"100000" doc:"Most requests that are being read or wait for their verdict; further ones are answered with 503. Each may hold a payload of max_row in memory."`
	Leader      bool     `yaml:"leader" default:"false" doc:"One instance at a time runs all routes of this source. No effect, because the source has one route."`
}

// Kind is "http".
func (*HTTPSource) Kind() string { return "http" }
func (*HTTPSource) log() bool    { return false }

func (h *HTTPSource) check(c *checker, at place) {
	if err := hostPort(h.Listen, true); err != nil {
		if at.has("listen") {
			c.add(at.child("listen"), "%v", err).hint("for example 127.0.0.1:8090")
		}
	} else if !loopback(hostOf(h.Listen)) && !at.has("tokens_file") {
		c.add(at.child("listen"), "other machines can reach this address, and there is no token").
			hint("set tokens_file: /etc/outrider/senders, or listen on 127.0.0.1")
	}
	if h.Path == "" || h.Path[0] != '/' {
		c.add(at.child("path"), "does not begin with a slash").hint("for example /events")
	}
}
