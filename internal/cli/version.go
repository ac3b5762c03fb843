package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// AddVersion adds the command version and the flag --version to root. Both print line,
// the result of buildinfo.Line.
func AddVersion(root *cobra.Command, line string) {
	root.Version = line
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version and exit") // without cobra's -v
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version and exit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), line)
			return err
		},
	})
}
