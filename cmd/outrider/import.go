package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/outriderhq/outrider/config/flowcatalyst"
)

func (a *app) importCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "import",
		Short: "Convert the configuration of another system",
	}, a.importFlowCatalystCommand())
}

func (a *app) importFlowCatalystCommand() *cobra.Command {
	var output, profile string
	c := &cobra.Command{
		Use:   "flowcatalyst FILE",
		Short: "Turn the settings of FlowCatalyst's outbox processor into a configuration",
		Long: `Reads the configuration of FlowCatalyst's outbox processor and writes an equivalent one
for Outrider, with all keys and defaults: the FC_OUTBOX_* variables of its current programs
from a .env file, or the outbox-processor.* keys of the earlier processor from a .properties
or YAML file. Secrets are not copied: the result refers to environment variables. Settings
that cannot be converted are reported on standard error.`,
		Example: "  outrider import flowcatalyst .env --output outrider.yaml\n  outrider import flowcatalyst application.properties --output outrider.yaml\n  outrider validate",
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().StringVar(&output, "output", "", "`file` to write; it must not exist yet. Default: standard output")
	c.Flags().StringVar(&profile, "profile", "prod", "`profile` of a .properties or YAML file whose keys go before those of none")
	c.RunE = func(_ *cobra.Command, args []string) error {
		text, err := os.ReadFile(args[0])
		if err != nil {
			return wrongError{err}
		}
		imported, err := flowcatalyst.Import(args[0], text, flowcatalyst.Options{Profile: profile})
		if err != nil {
			return wrongError{err}
		}
		for _, note := range imported.Notes {
			fmt.Fprintf(a.err, "note: %s\n", note)
		}
		if output == "" {
			_, err := a.out.Write(imported.Config)
			return err
		}
		return writeNew(output, imported.Config)
	}
	return c
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
