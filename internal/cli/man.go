// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (a *app) manCommand() *cobra.Command {
	return a.command(&cobra.Command{
		Use:    "man DIR",
		Short:  "Write man pages, section 8, into a folder",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
	}, func(cmd *cobra.Command, args []string) error {
		return writeManPages(cmd.Root(), args[0], a.deps.Version)
	})
}

// writeManPages writes a page for every command that is not hidden. Their
// date is SOURCE_DATE_EPOCH's, if that is set, else today.
func writeManPages(root *cobra.Command, dir, version string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "8", Source: "ovpn-xdp " + version, Manual: "System administration"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	return nil
}
