// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ovpn-xdp/ovpn-xdp/internal/admin"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := a.command(&cobra.Command{
		Use:   "version [flags]",
		Short: "Print the version",
	}, func(*cobra.Command, []string) error {
		if asJSON {
			return a.printJSON(struct {
				Version  int    `json:"version"`
				Software string `json:"software"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{admin.Version, a.deps.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
		}
		_, err := fmt.Fprintf(a.stdout, "ovpn-xdp %s (%s, %s/%s)\n", a.deps.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
