package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

func (a *app) runCommand() *cobra.Command {
	var instance string
	c := &cobra.Command{
		Use:   "run",
		Short: "Deliver messages until SIGTERM or Ctrl-C",
		Long: `Delivers the messages of all routes.

SIGTERM and SIGINT drain the process: it stops reading, delivers and settles the
messages in flight, releases its lanes, and exits with status 0. If that takes longer
than drain_timeout, the exit status is 1, and the error names the routes and lanes with
messages in flight; these messages may be delivered again. A second signal ends the
process at once, with status 1.

SIGHUP reloads the configuration file. If a start would refuse it, because it has an error
or a database cannot be used, the process logs that and keeps its configuration. Otherwise
it drains and continues with the new one; messages are delivered twice only if
drain_timeout was too short. Changes to the sections admin, log and
telemetry need a restart.

Started by systemd with Type=notify, it reports when it is ready, reloads and stops, and
answers the watchdog of the unit.`,
	}
	a.takesConfig(c)
	c.Flags().StringVar(&instance, "instance", "", "name of this process, unique; default: the host's name and an id")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.load()
		if err != nil {
			return err
		}
		if instance == "" {
			instance = instanceName()
		}
		return a.run(c.Context(), cfg, instance)
	}
	return c
}

func (a *app) run(ctx context.Context, cfg *config.Config, instance string) error {
	if err := supplied(cfg); err != nil {
		return err
	}
	log := a.logger(cfg, cfg.Log.Level)
	relay, err := outrider.New(cfg, outrider.WithLogger(log), outrider.WithInstance(instance),
		outrider.WithReload(a.load))
	if err != nil {
		return wrongError{err}
	}
	doctor.TuneMemory(cfg)
	systemd := supervisor{log}
	stop := a.onHangup(ctx, relay, systemd)
	defer stop()
	say := func(text string) {
		systemd.stopping()
		log.Info(text)
	}
	return untilSignal(ctx, say, func(ctx context.Context) error {
		log.Info("outrider starts", "version", operate.Version().Version, "instance", instance,
			"routes", len(cfg.Routes), "admin", cmp.Or(cfg.Admin.Listen, "off"))
		running, end := context.WithCancel(context.WithoutCancel(ctx)) // until the drain has ended
		var beside sync.WaitGroup
		beside.Go(func() {
			select {
			case <-relay.Ready():
				systemd.ready(len(cfg.Routes))
				log.Info("ready", "admin", cmp.Or(relay.AdminAddress(), "off"))
			case <-running.Done():
			}
		})
		beside.Go(func() { systemd.watch(running, relay.Alive) })
		err := relay.Run(ctx)
		end()
		beside.Wait()
		return err
	})
}

// onHangup reloads with each SIGHUP until stop is called.
func (a *app) onHangup(ctx context.Context, relay *outrider.Outrider, systemd supervisor) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				a.reload(ctx, relay, systemd)
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		cancel()
		<-ended
	}
}

// reload puts the configuration file to work as it is now.
func (a *app) reload(ctx context.Context, relay *outrider.Outrider, systemd supervisor) {
	log := systemd.log
	select {
	case <-relay.Ready():
	default: // systemd would take the end of a reload for that of the start
		log.Error("SIGHUP: not reloaded: the relay has not started yet; try again when it is ready")
		return
	}
	systemd.reloading()
	cfg, err := relay.Reread()
	if err != nil {
		systemd.refused(err)
		log.Error(fmt.Sprintf("SIGHUP: %s has errors; this process keeps its configuration:\n%v", a.config, err))
		return
	}
	log.Info("SIGHUP: the configuration file is valid; reloading", "file", a.config, "routes", len(cfg.Routes))
	if err := relay.Reload(ctx, cfg); err != nil {
		if ctx.Err() == nil {
			systemd.refused(err)
			log.Error("SIGHUP: not reloaded", "error", err)
		}
		return
	}
	doctor.TuneMemory(cfg)
	systemd.ready(len(cfg.Routes))
	log.Info("SIGHUP: reloaded", "routes", len(cfg.Routes))
}

// supplied refuses what only a Go program that embeds Outrider can run.
func supplied(cfg *config.Config) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.Sources)) {
		if cfg.Sources[name].Kind() == "subscriber" {
			errs = append(errs, wrong("source %q has type subscriber: a Go program that embeds Outrider supplies it, so start that program; "+
				"for `outrider run` use a source of type postgres or sqlite", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Destinations)) {
		if cfg.Destinations[name].Kind() == "publisher" {
			errs = append(errs, wrong("destination %q has type publisher: a Go program that embeds Outrider supplies it, so start that program; "+
				"for `outrider run` use a destination of another type, such as kafka, http or webhook", name))
		}
	}
	return errors.Join(errs...)
}

// instanceName makes a name that no other process has: the host's name and a ULID.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "-" + ulid.Make().String()
}
