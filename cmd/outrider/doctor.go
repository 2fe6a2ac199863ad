package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider"
	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/console"
	"github.com/outriderhq/outrider/admin/doctor"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/admin/status"
	"github.com/outriderhq/outrider/config"
)

// errBroken is the error of a doctor who found something broken; what it is has
// been printed.
var errBroken = errors.New("something is broken")

// errInvalid is its like for a validate that has printed what is wrong.
var errInvalid = errors.New("the configuration has errors")

// doctorPatience bounds a whole visit.
const doctorPatience = 2 * time.Minute

func (a *app) doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything that a relay needs and suggest a fix for each problem",
		Long: `Checks the configuration, databases, tables, privileges, poolers, clocks, brokers and
receivers. It changes nothing and sends no message, and no relay needs to run. The exit
status is 1 when something is broken; warnings leave it at 0.`,
	}
	a.takesConfig(c)
	out := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		found, err := a.examine(c.Context())
		if err != nil {
			return err
		}
		counts := map[adapters.Level]int{}
		for _, d := range found {
			counts[d.Level]++
		}
		if out.json() {
			err = a.printDiagnosesJSON(found)
		} else {
			a.printDiagnoses(found, counts)
		}
		if err == nil && counts[adapters.LevelBroken] > 0 {
			return errBroken
		}
		return err
	}
	return c
}

// examine makes findings of a configuration that is not valid.
func (a *app) examine(ctx context.Context) ([]doctor.Diagnosis, error) {
	cfg, err := a.load()
	if invalid, ok := errors.AsType[*config.Errors](err); ok {
		var found []doctor.Diagnosis
		for _, e := range invalid.List {
			found = append(found, doctor.Diagnosis{Part: "config", Finding: adapters.Finding{
				Level: adapters.LevelBroken, Subject: "file", Text: e.Error(), Fix: e.Hint}})
		}
		return found, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, doctorPatience)
	defer cancel()
	logger := outrider.WithLogger(a.logger(cfg, "error"))
	return append(doctor.Doctor(ctx, cfg, logger), console.Troubles(cfg, runningRoutes(ctx, cfg, logger))...), nil
}

// runningRoutes returns the routes of a running relay; none if the state store cannot be opened, which the doctor reports.
func runningRoutes(ctx context.Context, cfg *config.Config, logger operate.Option) map[string]status.Route {
	op, err := operate.NewOperator(ctx, cfg, logger)
	if err != nil {
		return nil
	}
	running, _ := console.RunningRoutes(ctx, op) // none may run
	_ = op.Close()                               // nothing was written
	return running
}

func (a *app) printDiagnosesJSON(found []doctor.Diagnosis) error {
	list, broken, warnings := console.ViewDiagnoses(found)
	return a.printJSON(doctorAnswer{list, broken, warnings})
}

// marks precede findings.
var marks = map[adapters.Level]string{
	adapters.LevelOK: "ok     ", adapters.LevelUnknown: "unknown", adapters.LevelWarning: "WARNING", adapters.LevelBroken: "BROKEN ",
}

func (a *app) printDiagnoses(found []doctor.Diagnosis, counts map[adapters.Level]int) {
	for i, d := range found {
		if i == 0 || found[i-1].Part != d.Part {
			fmt.Fprintln(a.out, plain(d.Part))
		}
		fmt.Fprintf(a.out, "  %s  %s: %s\n", marks[d.Level], plain(d.Subject), plain(d.Text))
		if d.Fix != "" {
			fmt.Fprintf(a.out, "           fix: %s\n", plain(d.Fix))
		}
	}
	worst := slices.MaxFunc(append(found, doctor.Diagnosis{}), func(a, b doctor.Diagnosis) int { return cmp.Compare(a.Level, b.Level) })
	switch worst.Level {
	case adapters.LevelOK, adapters.LevelUnknown:
		fmt.Fprintln(a.out, "no problems found")
	case adapters.LevelWarning, adapters.LevelBroken:
		fmt.Fprintf(a.out, "%d broken, %s\n", counts[adapters.LevelBroken], counted(counts[adapters.LevelWarning], "warning"))
	}
}
