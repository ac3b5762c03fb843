package nfsrdma_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestReadme checks that the Go code of README.md is in example_test.go.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, found = strings.Cut(code, "```\n")
	require.True(t, found)
	var indented strings.Builder
	for line := range strings.Lines(code) {
		indented.WriteString("\t" + line)
	}
	examples, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	assert.Contains(t, string(examples), "{\n"+indented.String()+"}\n")
}
