package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/internal/endpoint"
)

var _ adapters.Examiner = (*Destination)(nil)

// Examine implements [adapters.Examiner]: the servers are dialled, and the stream's settings and the servers' intervals judged.
func (d *Destination) Examine(ctx context.Context) []adapters.Finding {
	f := endpoint.DialAny(ctx, d.cfg.hosts(), "4222", nil, d.cfg.Timeout) // TLS begins after the first line of a server
	js, _, err := d.link.get()
	if err != nil {
		return append(f, adapters.Finding{Level: adapters.LevelBroken, Subject: "connection", Text: err.Error(), Fix: "check the addresses, tls and the login"})
	}
	if state, err := js.Conn().TLSConnectionState(); err == nil {
		f = append(f, endpoint.Certificate(js.Conn().ConnectedAddr(), state, time.Now()))
	}
	limited, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	f = append(f, d.examineStream(limited, js)...)
	return append(f, d.examineSync(limited, js))
}

// hosts are the servers without their scheme.
func (c *Connection) hosts() []string {
	var hosts []string
	for _, server := range c.Servers {
		_, host, found := strings.Cut(server, "://")
		if !found {
			host = server
		}
		hosts = append(hosts, host)
	}
	return hosts
}

// examineStream judges the stream of a subject that is the same for all messages, or the one that the configuration names.
func (d *Destination) examineStream(ctx context.Context, js jetstream.JetStream) []adapters.Finding {
	if d.subjects.Static() {
		info, err := d.find(ctx, js, d.cfg.Subject)
		if err != nil {
			return adapters.FindingsOf("subject "+d.cfg.Subject, err)
		}
		if d.cfg.Stream != "" && info.Config.Name != d.cfg.Stream {
			return append(d.judge(&info.Config), adapters.Finding{Level: adapters.LevelWarning, Subject: "stream " + info.Config.Name,
				Text: "covers the subject, and the destination names stream " + d.cfg.Stream, Fix: "correct the key stream"})
		}
		return d.judge(&info.Config)
	}
	f := []adapters.Finding{{Level: adapters.LevelUnknown, Subject: "subjects " + d.cfg.Subject,
		Text: "depend on the message, so whether a stream covers them is known when one is sent", Fix: "make sure that a stream covers each; streams are not created"}}
	if d.cfg.Stream == "" {
		if _, err := js.AccountInfo(ctx); err != nil {
			f = append(f, adapters.FindingsOf("JetStream", d.unavailable(d.cfg.Subject, err))...)
		}
		return f
	}
	s, err := js.Stream(ctx, d.cfg.Stream)
	if err != nil {
		return append(f, adapters.Finding{Level: adapters.LevelBroken, Subject: "stream " + d.cfg.Stream, Text: err.Error(), Fix: "create the stream or correct its name"})
	}
	return append(f, d.judge(&s.CachedInfo().Config)...)
}

// resent is how long after a message was stored, without that being known, it is sent again at the latest while the servers answer:
// a delivery may take its timeout, and the next one begins after a pause.
func (c *Config) resent() time.Duration { return 2*c.Timeout + 30*time.Second }

// judge says what a stream's settings mean for messages that were acknowledged.
func (d *Destination) judge(s *jetstream.StreamConfig) []adapters.Finding {
	subject := "stream " + s.Name
	f := []adapters.Finding{{Subject: subject, Text: fmt.Sprintf("%d replicas, storage %s, duplicate window %v: a message whose acknowledgement was lost and that is sent again later than that, as after a long outage, is stored twice",
		s.Replicas, strings.ToLower(s.Storage.String()), s.Duplicates)}}
	add := func(wrong bool, level adapters.Level, text, fix string) {
		if wrong {
			f = append(f, adapters.Finding{Level: level, Subject: subject, Text: text, Fix: fix})
		}
	}
	add(s.NoAck, adapters.LevelBroken, "acknowledges nothing (no_ack), so no message counts as delivered", "set no_ack: false")
	add(s.Sealed, adapters.LevelBroken, "is sealed and takes no messages", "deliver to another stream")
	add(s.Storage == jetstream.MemoryStorage, adapters.LevelWarning, "is in memory: a restart of its servers loses messages", "use a stream with storage file")
	add(s.Replicas < 2, adapters.LevelWarning, "has one replica: its messages are lost with its server's disk", "nats stream edit "+s.Name+" --replicas 3, in a cluster of at least three servers")
	add(!s.AllowAtomicPublish, adapters.LevelWarning, "takes no atomic batches, so messages are sent one by one", "set allow_atomic: true; servers need NATS 2.12")
	add(s.Duplicates < d.cfg.resent(), adapters.LevelWarning, fmt.Sprintf("the duplicate window of %v is shorter than the %v after which a message with an unknown outcome may be sent again", s.Duplicates, d.cfg.resent()),
		fmt.Sprintf("nats stream edit %s --dupe-window %v, or shorten the destination's timeout", s.Name, max(duplicateWindow, d.cfg.resent())))
	return f
}

// syncing is the part of a server's variables that says how often it writes to disk.
type syncing struct {
	JetStream struct {
		Config struct {
			SyncInterval time.Duration `json:"sync_interval"`
			SyncAlways   bool          `json:"sync_always"`
		} `json:"config"`
	} `json:"jetstream"`
}

const syncLoss = "a power loss of all replicas loses acknowledged messages of that time"

// examineSync judges how often servers write to disk.
func (d *Destination) examineSync(ctx context.Context, js jetstream.JetStream) adapters.Finding {
	f := adapters.Finding{Level: adapters.LevelUnknown, Subject: "sync interval", Fix: "set jetstream {sync_interval: always} on the servers"}
	v, err := d.variables(ctx, js)
	if err != nil {
		f.Text = fmt.Sprintf("not known (%v); by default servers write to disk every two minutes, and %s", err, syncLoss)
		f.Fix += "; give the destination monitoring: http://HOST:8222 to have it checked"
		return f
	}
	if c := v.JetStream.Config; !c.SyncAlways {
		f.Level, f.Text = adapters.LevelWarning, fmt.Sprintf("the server writes to disk every %v: %s", c.SyncInterval, syncLoss)
		return f
	}
	return adapters.Finding{Subject: "sync interval", Text: "the server writes each message to disk before it acknowledges it"}
}

// variables reads a server's variables from its monitoring port, or from the system account's service where the user may.
func (d *Destination) variables(ctx context.Context, js jetstream.JetStream) (v syncing, err error) {
	if d.cfg.Monitoring == "" {
		var answer struct {
			Data syncing `json:"data"`
		}
		msg, err := js.Conn().RequestWithContext(ctx, "$SYS.REQ.SERVER.PING.VARZ", nil)
		if err != nil {
			return v, err
		}
		err = json.Unmarshal(msg.Data, &answer)
		return answer.Data, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(d.cfg.Monitoring, "/")+"/varz", http.NoBody)
	if err != nil {
		return v, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return v, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	err = json.NewDecoder(resp.Body).Decode(&v)
	return v, err
}
