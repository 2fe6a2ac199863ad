package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

func (a *app) initCommand() *cobra.Command {
	var printOnly, notify, indexes, dryRun bool
	var to operate.Grantees
	c := &cobra.Command{
		Use:   "init",
		Short: "Create the outbox tables and the tables of Outrider's state",
		Long: `Creates missing tables: the outbox table of each source, and the state tables.

With --print it connects to nothing and prints the SQL and the grants, for your own
migrations. The grants are comments with example role names; with --relay, --operator
and --publisher they are statements for existing roles. Once the tables exist, a relay
needs no CREATE privilege.

In MariaDB and MySQL it adds invisible columns and indexes to existing tables. It prints
which before it adds them; with --dry-run it prints them and adds nothing.

With --indexes it first creates missing indexes on the tables of other systems (all
layouts but outrider), without blocking writers. On a large table this takes minutes.

With --notify it also creates a trigger on the tables of each source with wake: notify or auto,
so that every INSERT wakes the relay. Publishers that use Outrider's Go client with
Notify do not need the trigger.`,
	}
	a.takesConfig(c)
	c.Flags().BoolVar(&printOnly, "print", false, "print the SQL and connect to nothing")
	c.Flags().StringVar(&to.Relay, "relay", "", "with --print: grant what a relay needs to this database `role`")
	c.Flags().StringVar(&to.Operator, "operator", "", "with --print: grant what operators' commands need to this database `role`")
	c.Flags().StringVar(&to.Publisher, "publisher", "", "with --print: grant what publishers need to this database `role`")
	out := outputFlag(c)
	c.Flags().BoolVar(&indexes, "indexes", false, "create missing indexes on tables of other systems, without stopping writers")
	c.Flags().BoolVar(&notify, "notify", false, "also create triggers, so that every INSERT wakes the relay")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be added to existing tables in MariaDB and MySQL")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := a.loadState()
		if err != nil {
			return err
		}
		if printOnly {
			return a.printInit(cfg, to, notify, out.json())
		}
		if to != (operate.Grantees{}) {
			return errors.New("--relay, --operator and --publisher go with --print")
		}
		adds, err := operate.InitAdds(c.Context(), cfg)
		for _, text := range adds {
			fmt.Fprintln(a.err, text)
		}
		if err == nil && dryRun && out.json() {
			return a.printJSON(initAnswer{WouldAdd: append([]string{}, adds...)})
		}
		if err != nil || dryRun {
			return err
		}
		return a.initialise(c.Context(), cfg, indexes, notify, out.json())
	}
	return c
}

// initialise creates what is missing, and says what that was, also when it ends early.
func (a *app) initialise(ctx context.Context, cfg *config.Config, indexes, notify, machine bool) (err error) {
	var done, did []string
	if indexes {
		done, err = operate.InitIndexes(ctx, cfg, func(text string) { fmt.Fprintln(a.err, text) })
	}
	if err == nil {
		did, err = operate.Init(ctx, cfg, outrider.WithLogger(a.logger(cfg, "warn")))
		done = append(done, did...)
	}
	if err == nil && notify {
		did, err = operate.InitWake(ctx, cfg)
		done = append(done, did...)
	}
	if machine {
		return errors.Join(a.printJSON(initAnswer{Done: append([]string{}, done...)}), err)
	}
	for _, text := range done {
		fmt.Fprintln(a.out, text)
	}
	return err
}

// printInit prints statements by what they are for.
func (a *app) printInit(cfg *config.Config, to operate.Grantees, notify, machine bool) error {
	for flag, role := range map[string]string{"--relay": to.Relay, "--operator": to.Operator, "--publisher": to.Publisher} {
		if role != "" && role != plain(role) || len(role) > 63 {
			return fmt.Errorf("%s: %q is not a role name", flag, role)
		}
	}
	state, err := operate.InitStateSQL(cfg, to)
	if err != nil {
		return err
	}
	all := statements("source ", operate.InitSQL(cfg, to))
	if notify {
		all = append(all, statements("source ", operate.InitWakeSQL(cfg))...)
	}
	all = append(all, statements("", state)...)
	if machine {
		return a.printJSON(initAnswer{Statements: all})
	}
	for _, s := range all {
		comment := "--"
		if strings.HasPrefix(s.SQL, "//") { // what is no SQL
			comment = "//"
		}
		fmt.Fprintf(a.out, "%s %s\n%s\n", comment, plain(s.For), s.SQL) // a line break would end the comment
	}
	return nil
}

// statements lists texts by the names of what they are for.
func statements(what string, texts map[string]string) (all []statement) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		all = append(all, statement{what + name, texts[name]})
	}
	return all
}

func (a *app) validateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration file, without connecting to anything",
	}
	a.takesConfig(c)
	out := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		cfg, err := a.load()
		if invalid, ok := errors.AsType[*config.Errors](err); ok && out.json() {
			return errors.Join(a.printJSON(validateAnswer{false, problems(invalid.List), []problem{}, []problem{}}), errInvalid)
		}
		if err != nil {
			return err
		}
		if err := supplied(cfg); err != nil {
			return err
		}
		if _, err := outrider.New(cfg); err != nil {
			return wrongError{err}
		}
		if out.json() {
			return a.printJSON(validateAnswer{true, []problem{}, problems(cfg.Warnings), problems(cfg.Notes)})
		}
		for _, w := range cfg.Warnings {
			fmt.Fprintf(a.err, "warning: %s\n", w.Text())
		}
		for _, n := range cfg.Notes {
			fmt.Fprintf(a.err, "note: %s\n", n.Text())
		}
		fmt.Fprintf(a.out, "ok: %s, %s, %s\n", counted(len(cfg.Routes), "route"),
			counted(len(cfg.Sources), "source"), counted(len(cfg.Destinations), "destination"))
		return nil
	}
	return c
}

// problem is an error, a warning or a note of validate, for machines.
type problem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path,omitempty" doc:"Of the key, such as routes.orders.from."`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty" doc:"The fix."`
}

func problems(list []*config.Error) []problem {
	out := []problem{}
	for _, e := range list {
		out = append(out, problem{e.Line, e.Column, e.Path, e.Message, e.Hint})
	}
	return out
}

func (a *app) schemaCommand() *cobra.Command {
	var example bool
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration file, for editors",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			if example {
				fmt.Fprint(a.out, config.Example)
				return nil
			}
			_, err := a.out.Write(config.Schema())
			return err
		},
	}
	c.Flags().BoolVar(&example, "example", false, "print a configuration file to start from instead")
	return c
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print version, commit, date, Go version and platform", Args: noArgs}
	out := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		build := operate.Version()
		if out.json() {
			return a.printJSON(build)
		}
		fmt.Fprintln(a.out, build)
		return nil
	}
	return c
}
