package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/compat/crablet"
	"github.com/outriderhq/outrider/compat/debezium"
	"github.com/outriderhq/outrider/compat/flowcatalyst"
)

func (a *app) importCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "import",
		Short: "Convert the configuration of another system",
	}, a.importFlowCatalystCommand(), a.importCrabletCommand(), a.importDebeziumCommand())
}

func (a *app) importCrabletCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "crablet FILE",
		Short: "Turn the settings of Crablet's outbox into a configuration",
		Long: `Reads the crablet.outbox.* keys of a .properties or YAML file and writes an equivalent
configuration for Outrider, with a route for each pair of a topic and a publisher. Secrets are
not copied: the result refers to environment variables. Keys without an equivalent, and
publishers that are classes of the application, are reported on standard error.`,
		Example: "  outrider import crablet application.properties --output outrider.yaml\n  outrider validate",
	}
	profile := profileFlag(c)
	a.importFile(c, func(name string, text []byte) (config []byte, notes []string, err error) {
		r, err := crablet.Import(name, text, crablet.Options{Profile: *profile})
		return r.Config, r.Notes, err
	})
	return c
}

func (a *app) importFlowCatalystCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "flowcatalyst FILE",
		Short: "Turn the settings of FlowCatalyst's outbox processor into a configuration",
		Long: `Reads the configuration of FlowCatalyst's outbox processor and writes an equivalent one
for Outrider, with all keys and defaults: the FC_OUTBOX_* variables of its current programs
from a .env file, or the outbox-processor.* keys of the earlier processor from a .properties
or YAML file. Secrets are not copied: the result refers to environment variables. Settings
that cannot be converted are reported on standard error.`,
		Example: "  outrider import flowcatalyst .env --output outrider.yaml\n  outrider import flowcatalyst application.properties --output outrider.yaml\n  outrider validate",
	}
	profile := profileFlag(c)
	a.importFile(c, func(name string, text []byte) (config []byte, notes []string, err error) {
		r, err := flowcatalyst.Import(name, text, flowcatalyst.Options{Profile: *profile})
		return r.Config, r.Notes, err
	})
	return c
}

func (a *app) importDebeziumCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "debezium FILE",
		Short: "Turn the settings of a connector with Debezium's outbox event router into a configuration",
		Long: `Reads the settings of a connector for PostgreSQL with Debezium's outbox event router, the JSON of
Kafka Connect's API or a .properties file, and writes a configuration for Outrider that reads
the same table and writes the same records. Secrets are not copied: the result refers to
environment variables. Settings without an equivalent are reported on standard error.`,
		Example: "  outrider import debezium connector.json --output outrider.yaml\n  outrider validate",
	}
	a.importFile(c, func(name string, text []byte) (config []byte, notes []string, err error) {
		r, err := debezium.Import(name, text)
		return r.Config, r.Notes, err
	})
	return c
}

// profileFlag adds the flag --profile.
func profileFlag(c *cobra.Command) *string {
	return c.Flags().String("profile", "prod", "`profile` of a .properties or YAML file, whose keys override those outside of profiles")
}

// importFile has a command convert the file that it is given.
func (a *app) importFile(c *cobra.Command, convert func(name string, text []byte) (config []byte, notes []string, err error)) {
	var output string
	c.Args = cobra.ExactArgs(1)
	c.Flags().StringVar(&output, "output", "", "`file` to write; it must not exist yet. Default: standard output")
	c.RunE = func(_ *cobra.Command, args []string) error {
		text, err := os.ReadFile(args[0])
		if err != nil {
			return wrongError{err}
		}
		content, notes, err := convert(args[0], text)
		if err != nil {
			return wrongError{err}
		}
		for _, note := range notes {
			fmt.Fprintf(a.err, "note: %s\n", note)
		}
		if output == "" {
			_, err := a.out.Write(content)
			return err
		}
		return writeNew(output, content)
	}
}

// writeNew writes a file that does not exist yet.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return wrong("--output %s: the file exists; name another or remove it", path)
	}
	if err != nil {
		return wrongError{err}
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
