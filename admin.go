package outrider

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/api"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/server"
	"github.com/outriderhq/outrider/admin/web"
	"github.com/outriderhq/outrider/compat/crablet/publishers"
	"github.com/outriderhq/outrider/internal/assembly"
)

// startAdmin serves health and metrics from the beginning, so that a start that
// hangs can be seen.
func (o *Outrider) startAdmin() (err error) {
	if o.cfg.Admin.Enabled() {
		if o.admin, err = server.Listen(o.adminConfig()); err != nil {
			return err
		}
	}
	if o.cfg.Admin.Probes != "" {
		o.probes, err = server.ListenProbes(o.adminConfig())
	}
	return err
}

// closeAdmin ends what startAdmin has started.
func (o *Outrider) closeAdmin() (err error) {
	for _, s := range []*server.Server{o.admin, o.probes} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// newConsole makes what the admin API works on.
func (o *Outrider) newConsole() *console.Console {
	r := console.Relay{Stats: o.Stats, Options: o.options, Config: o.relay.Config, Pending: o.relay.Pending}
	r.Instance = func() string {
		if s := o.relay.Router(); s != nil {
			return s.Instance()
		}
		return o.options.Instance
	}
	r.Trace = func(id string, at []adapters.RowPlace) (string, []adapters.Trace) {
		if s := o.relay.Router(); s != nil {
			return s.Trace(id, at)
		}
		return "", nil
	}
	r.Probe = func(route, address string) bool {
		s := o.relay.Router()
		return s != nil && s.ProbeNow(route, address)
	}
	if o.options.Reread != nil {
		r.Reload = func(ctx context.Context) error {
			cfg, err := o.Reread()
			if err != nil {
				return err
			}
			return o.relay.Reload(ctx, cfg)
		}
	}
	return console.NewConsole(r)
}

// Handler returns the admin server's handler, to be mounted in a server of the
// program's own, for example under /outrider/ with [http.StripPrefix]: health
// (/livez, /readyz), /routes, /metrics, the API below /api/v1/ and the dashboard at /. It asks for the configured tokens; without
// any, put the program's own authentication before it. It may be served before Run
// begins.
func (o *Outrider) Handler() http.Handler { return server.Handler(o.adminConfig()) }

func (o *Outrider) adminConfig() server.Config {
	return server.Config{
		Listen: o.cfg.Admin.Listen, Probes: o.cfg.Admin.Probes, Hosts: o.cfg.Admin.Hosts, Logger: o.log,
		Tokens:        assembly.Reveal(o.cfg.Admin.Tokens),
		OperateTokens: assembly.Reveal(o.cfg.Admin.OperateTokens), AdminTokens: assembly.Reveal(o.cfg.Admin.AdminTokens),
		Anonymous: operate.ParseRole(o.cfg.Admin.Anonymous), Identity: server.IdentityOf(o.cfg.Admin),
		API: api.New(o.console), Outbox: publishers.New(o.console), Pages: web.New(o.console),
		Stats: o.Stats, Ready: o.relay.NotReady, Prove: o.console.Prove, Metrics: metrics{o},
	}
}

// pushMetrics sends the metrics of the admin server by OTLP too, where that is configured, until the returned function is called.
func (o *Outrider) pushMetrics(ctx context.Context) (stop func(), err error) {
	receiver, err := assembly.NewBuilder(o.cfg, o.options).Telemetry()
	if err != nil {
		return nil, err
	}
	return receiver.PushMetrics(ctx, server.Registry(o.adminConfig()))
}

// record has the console keep its history until the returned function is called.
func (o *Outrider) record(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.console.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// metrics are those of the relay and of the console.
type metrics struct{ o *Outrider }

// Describe implements prometheus.Collector: which metrics there are depends on the configuration.
func (metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m metrics) Collect(out chan<- prometheus.Metric) {
	m.o.relay.Collect(out)
	m.o.console.Collect(out)
}
