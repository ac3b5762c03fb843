package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "docs", "conformance"), 0o700))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(root, "docs", name), []byte(text), 0o600))
	}
	write("requirements.tsv", "id\tlevel\twho\ttext\nX1-1-1\tMUST\tboth\tDo.\nX2-1-1\tMUST\tboth\tDo.\n")
	write("conformance/README.md", "[X1](x1.md)\n")
	write("conformance/x1.md", "- X1-1-1: n/a; a reason\n")
	for _, tt := range []struct {
		args []string
		want int
		out  string
		err  string
	}{
		{[]string{"-doc", "X1"}, 0, "conformance: 1 entries, 0 tested, 1 n/a\n", ""},
		{nil, 1, "conformance: 1 entries, 0 tested, 1 n/a\n", "docs/conformance: no entry for X2-1-1 (MUST, both): Do.\nconformance: 1 faults\n"},
		{[]string{"X1"}, 2, "", "check: unexpected argument \"X1\": only flags are allowed\n"},
		{[]string{"-root", root + "/docs"}, 2, "", "check: open docs/requirements.tsv: no such file or directory\n"},
	} {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, tt.want, runCheck(append([]string{"-root", root}, tt.args...), &stdout, &stderr))
		assert.Equal(t, tt.out, stdout.String())
		assert.Equal(t, tt.err, stderr.String())
	}
	assert.Equal(t, 2, runCheck([]string{"-nosuch"}, new(bytes.Buffer), new(bytes.Buffer)))
}
