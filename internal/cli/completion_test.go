package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestCompletionCommas completes lists of options in bash, with one candidate and with
// several. A candidate replaces the text after the last "=", if any (COMP_WORDBREAKS).
func TestCompletionCommas(t *testing.T) {
	root := &cobra.Command{Use: "prog"}
	root.AddCommand(NewCompletion("prog"))
	var script, errs bytes.Buffer
	require.Equal(t, ExitOK, Run(t.Context(), root, []string{"completion", "bash"}, &script, &errs), errs.String())
	file := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(file, script.Bytes(), 0o600))
	for _, tt := range []struct{ typed, known, want string }{
		{"ro,ti", "ro,timeo=", "ro,timeo=\n"},
		{"ro,timeo=30,ha", "ro,timeo=30,hard", "30,hard\n"},
		{"ro,timeo=30,no", "ro,timeo=30,noac\\nro,timeo=30,nocto", "30,noac\n30,nocto\n"},
	} {
		cmd := exec.Command("bash", "--noprofile", "--norc", "-c", `. "$1"
_init_completion() { cur=$typed words=(prog "$typed") cword=1; }
prog() { test "$2" = "$typed" && printf "$known\n:6\n"; }
COMP_TYPE=9
how=$(complete -p prog)
how=${how#*-F }
${how% prog}
printf '%s\n' "${COMPREPLY[@]}"`, "bash", file)
		cmd.Env = append(os.Environ(), "typed="+tt.typed, "known="+tt.known)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(out), tt.typed)
	}
}
