package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

func TestCompletion(t *testing.T) {
	run := func(args ...string) (int, string) {
		root := &cobra.Command{Use: "prog"}
		root.AddCommand(NewCompletion("prog"))
		var out, errs bytes.Buffer
		return Run(t.Context(), root, args, &out, &errs), out.String() + errs.String()
	}
	for shell, line := range map[string]string{"bash": "__start_prog", "zsh": "#compdef prog", "fish": "complete -c prog"} {
		status, out := run("completion", shell)
		assert.Equal(t, ExitOK, status, shell)
		assert.Contains(t, out, line)
	}
	status, out := run("completion", "tcsh")
	assert.Equal(t, ExitUsage, status)
	assert.Equal(t, "prog: invalid argument \"tcsh\" for \"prog completion\"\n", out)
}
