package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/outriderhq/outrider/admin/operate"
)

// manCommand writes the man pages of the packages (deploy/packages/generate.sh).
func (*app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write a man page for each command into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // man pages are for everyone
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true // the header has the date, of the commit
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Outrider " + operate.Version().Version, Manual: "Outrider"}, args[0])
		},
	}
}
