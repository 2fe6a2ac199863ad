package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
)

func (a *app) runCommand() *cobra.Command {
	var instance string
	c := &cobra.Command{
		Use:   "run",
		Short: "Deliver messages until SIGTERM or Ctrl-C",
		Long: `Delivers the messages of all routes. SIGTERM and SIGINT drain: reading stops, what
is under way is delivered and written down, the lanes are released, and the exit
status is 0; a second signal ends at once, with status 1. SIGHUP checks the
configuration file and says whether a restart would accept it.`,
		Args: noArgs,
	}
	c.Flags().StringVar(&instance, "instance", "", "name of this process, unique; default: the host's name and an id")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.load()
		if err != nil {
			return err
		}
		if instance == "" {
			instance = outrider.NewInstanceName()
		}
		return a.run(c.Context(), cfg, instance)
	}
	return c
}

func (a *app) run(ctx context.Context, cfg *outrider.Config, instance string) error {
	log := a.logger(cfg, cfg.Log.Level)
	relay, err := outrider.New(cfg, outrider.WithLogger(log), outrider.WithInstance(instance))
	if err != nil {
		return wrongError{err}
	}
	for _, w := range cfg.Warnings {
		log.Warn("configuration: " + w.Error())
	}
	outrider.TuneMemory(cfg)
	stop := a.onHangup(log)
	defer stop()
	log.Info("outrider starts", "version", outrider.Version().Version, "instance", instance,
		"routes", len(cfg.Routes), "admin", cmp.Or(cfg.Admin.Listen, "off"))
	say := func(text string) { log.Info(text) }
	return untilSignal(ctx, say, func(ctx context.Context) error {
		ended, told := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(told)
			select {
			case <-relay.Ready():
				log.Info("ready", "admin", cmp.Or(relay.AdminAddress(), "off"))
			case <-ended:
			}
		}()
		err := relay.Run(ctx)
		close(ended)
		<-told
		return err
	})
}

// onHangup answers SIGHUP until stop is called.
func (a *app) onHangup(log *slog.Logger) (stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-signals:
				a.reviewConfig(log)
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-ended
	}
}

// reviewConfig tells whether a restart would accept the configuration file.
func (a *app) reviewConfig(log *slog.Logger) {
	cfg, err := a.load()
	if err == nil {
		_, err = outrider.New(cfg)
	}
	if err != nil {
		log.Error(fmt.Sprintf("SIGHUP: %s has errors; this process goes on with what it started with:\n%v", a.config, err))
		return
	}
	log.Info("SIGHUP: the configuration file is valid; restart the process to use it", "file", a.config,
		"routes", len(cfg.Routes))
}
