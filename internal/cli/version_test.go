package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

// TestAddVersion checks that the command and the flag print the same line, and
// that -v stays free.
func TestAddVersion(t *testing.T) {
	const line = "p v1.0.0 go1.0 linux/amd64"
	run := func(arg string) (int, string) {
		root := &cobra.Command{Use: "p", Run: func(*cobra.Command, []string) { t.Error("the program has run") }}
		AddVersion(root, line)
		var out bytes.Buffer
		return Run(t.Context(), root, []string{arg}, &out, &bytes.Buffer{}), out.String()
	}
	for _, arg := range []string{"version", "--version"} {
		status, out := run(arg)
		assert.Equal(t, ExitOK, status, arg)
		assert.Equal(t, line+"\n", out, arg)
	}
	status, _ := run("-v")
	assert.Equal(t, ExitUsage, status)
}
