package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitWrong  = 2 // wrong usage or configuration
)

// app is one call of the program.
type app struct {
	in       io.Reader
	out, err io.Writer

	config   string // path of the configuration file
	logLevel string // empty: what the configuration says
	started  bool   // arguments were understood and the command began
}

// wrongError is an error that the caller or the configuration is to blame for.
type wrongError struct{ error }

func (e wrongError) Unwrap() error { return e.error }

// wrong makes a [wrongError].
func wrong(format string, args ...any) error { return wrongError{fmt.Errorf(format, args...)} }

// execute runs one command and returns the exit code. Errors go to stderr, once.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr}
	root := a.rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	switch {
	case errors.Is(err, errBroken):
		return exitFailed
	case errors.Is(err, errInvalid):
		return exitWrong
	}
	var findings *config.Errors
	var mistake wrongError
	switch {
	case errors.As(err, &findings):
		fmt.Fprintln(stderr, findings)
		return exitWrong
	case !a.started:
		fmt.Fprintf(stderr, "outrider: %v\nTry: %s --help\n", strings.TrimSpace(err.Error()), command.CommandPath())
		return exitWrong
	case errors.As(err, &mistake):
		fmt.Fprintf(stderr, "outrider: %v\n", err)
		return exitWrong
	}
	fmt.Fprintf(stderr, "outrider: %v\n", err)
	return exitFailed
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "outrider",
		Short: "Deliver messages from outbox tables, in order and without loss",
		Long: `Outrider reads messages that applications have written to an outbox table in their own
transactions, and delivers them to Kafka, HTTP endpoints, webhooks and others.

To try it:  outrider demo
To use it:  write outrider.yaml, then: outrider validate, outrider init, outrider run`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// Errors before this are about the arguments, later ones about the work.
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if a.logLevel != "" && new(slog.Level).UnmarshalText([]byte(a.logLevel)) != nil {
				return fmt.Errorf("--log-level %q is none of debug, info, warn, error", a.logLevel)
			}
			a.started = true
			return nil
		},
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.config, "config", "c", cmp.Or(os.Getenv("OUTRIDER_CONFIG"), "outrider.yaml"),
		"configuration `file`; OUTRIDER_CONFIG sets the default")
	flags.StringVar(&a.logLevel, "log-level", "", "`level` of the log on standard error: debug, info, warn or error; default: log.level of the configuration")
	root.Version = operate.Version().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.InitDefaultVersionFlag() // now, or "--version --config FILE" takes the file for a command
	root.AddCommand(a.demoCommand(), a.initCommand(), a.runCommand(), a.validateCommand(), a.schemaCommand(),
		a.statusCommand(), a.pauseCommand(), a.resumeCommand(), a.seekCommand(), a.rebaseCommand(), a.routeCommand(),
		a.tailCommand(), a.eventCommand(), a.doctorCommand(), a.probeCommand(), a.parkedCommand(), a.operationsCommand(), a.transactionsCommand(), a.topicCommand(), a.instanceCommand(), a.retentionCommand(), a.publishCommand(), a.importCommand(), a.versionCommand(), a.manCommand())
	return root
}

// load reads the configuration file.
func (a *app) load() (*config.Config, error) { return a.loadBy(config.Load) }

// loadState reads what a command needs that delivers nothing: an operator's shell
// has no use for the destinations' secrets.
func (a *app) loadState() (*config.Config, error) { return a.loadBy(config.LoadState) }

func (a *app) loadBy(read func(path string, env func(string) (string, bool)) (*config.Config, error)) (*config.Config, error) {
	cfg, err := read(a.config, os.LookupEnv)
	if err == nil && cfg.Admin.Listen == "" {
		cfg.Admin.Listen = config.DefaultAdminListen
	}
	var findings *config.Errors
	switch {
	case err == nil || errors.As(err, &findings):
		return cfg, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, wrong("configuration file %s does not exist: name one with --config or OUTRIDER_CONFIG; "+
			"`outrider schema --example` prints one to start from", a.config)
	}
	return nil, wrongError{err}
}

// logger writes to stderr, in the configuration's format when there is one.
// --log-level has precedence over the given level, which is a name.
func (a *app) logger(cfg *config.Config, name string) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cmp.Or(a.logLevel, name))) // both have been checked
	options := &slog.HandlerOptions{Level: level}
	if cfg != nil && cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(a.err, options))
	}
	return slog.New(slog.NewTextHandler(a.err, options))
}

// takesConfig lets a command about the whole configuration take its file as an argument, as --config names it.
func (a *app) takesConfig(c *cobra.Command) {
	c.Use += " [CONFIG]"
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return fmt.Errorf("%q takes one configuration file, found %q too", c.CommandPath(), args[1])
		case len(args) == 1 && c.Flags().Changed("config"):
			return errors.New("the configuration file is named twice: as an argument and by --config")
		case len(args) == 1:
			a.config = args[0]
		}
		return nil
	}
}

// noArgs refuses arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q takes no argument, found %q", c.CommandPath(), args[0])
	}
	return nil
}

// group is a command that only holds others.
func group(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(commands...)
	return c
}
