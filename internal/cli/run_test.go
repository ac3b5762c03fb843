package cli

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

func TestRun(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"do"}, ExitOK, ""},
		{[]string{"do", "fail"}, ExitError, "prog: no luck\n"},
		{[]string{"do", "reported"}, ExitError, ""},
		{[]string{"do", "too", "many"}, ExitUsage, "prog: accepts at most 1 arg(s), received 2\n"},
		{[]string{"nosuch"}, ExitUsage, "prog: unknown command \"nosuch\" for \"prog\"\n"},
	} {
		root := &cobra.Command{Use: "prog"}
		root.AddCommand(&cobra.Command{
			Use:  "do",
			Args: cobra.MaximumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				switch {
				case len(args) == 0:
					return nil
				case args[0] == "fail":
					return errors.New("no luck")
				}
				return fmt.Errorf("three things: %w", ErrReported)
			},
		})
		var out, errs bytes.Buffer
		assert.Equal(t, tt.status, Run(t.Context(), root, tt.args, &out, &errs), tt.args)
		assert.Empty(t, out.String(), tt.args)
		assert.Equal(t, tt.stderr, errs.String(), tt.args)
	}
}
