package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// NewVersion returns the command that prints a program's version: the linker's
// version, or, if that is "", the version that Go's build information gives.
func NewVersion(program, version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and exit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s %s/%s\n",
				program, VersionString(version), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// VersionString returns the linker's version, or, if that is "", the version in
// Go's build information.
func VersionString(version string) string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
