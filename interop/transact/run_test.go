//go:build interop

package transact

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRun makes transactions by two processes, of which one rests between two
// of them.
func TestRun(t *testing.T) {
	db := filepath.Join(t.TempDir(), "db")
	sqlite := func(sql string) string {
		out, err := exec.Command("sqlite3", db, sql).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	assert.Equal(t, "delete\n", sqlite(Schema))
	in, words := io.Pipe()
	said, out := io.Pipe()
	ended := make(chan error, 2)
	go func() {
		ended <- Run(Job{Program: []string{"sqlite3"}, DB: db, Who: "a", Count: 20}, in, out)
		out.Close()
	}()
	lines := bufio.NewScanner(said)
	require.True(t, lines.Scan())
	go func() { _, _ = fmt.Fprintln(words, Rest) }()
	for lines.Scan() && lines.Text() != Resting {
	}
	require.Equal(t, Resting, lines.Text())
	var other strings.Builder
	require.NoError(t, Run(Job{Program: []string{"sqlite3"}, DB: db, Who: "b", Count: 3}, strings.NewReader(""), &other))
	assert.Equal(t, "0\n1\n2\nfailed 0 0\n", other.String())
	go func() { _, _ = fmt.Fprintln(words, Go) }()
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	assert.Equal(t, "failed 0 0", last)
	require.NoError(t, <-ended)
	assert.Equal(t, "ok\n23\n23\na|20|0|19\nb|3|0|2\n", sqlite(Check))
}

// TestFailed has transactions fail before and after they are in the database.
// The stand-in for sqlite3 says so each other time.
func TestFailed(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	stand := filepath.Join(dir, "stand-in")
	for name, failed := range map[string]string{"after": "failed 1 0", "before": "failed 0 1"} {
		require.NoError(t, exec.Command("sqlite3", db, Schema).Run())
		script := `#!/bin/sh
if [ -e ` + dir + `/again ]; then exec sqlite3 "$@"; fi
: >` + dir + `/again
read timeout; read end; echo @end
{ while read line && [ "$line" != ".print @end" ]; do [ "$1" = after ] && echo "$line"; done; } | sqlite3 "$3"
echo "disk I/O error"
echo @end
exec sleep 100
`
		script = strings.ReplaceAll(strings.ReplaceAll(script, "$1\" = after", name+"\" = after"), "\"$3\"", db)
		require.NoError(t, os.WriteFile(stand, []byte(script), 0o755))
		var out strings.Builder
		require.NoError(t, Run(Job{Program: []string{stand}, DB: db, Who: "a", Count: 2}, strings.NewReader(""), &out))
		assert.Equal(t, "transaction 0: disk I/O error\n\n0\n1\n"+failed+"\n", out.String())
		found, err := exec.Command("sqlite3", db, Check).Output()
		require.NoError(t, err)
		assert.Equal(t, "ok\n2\n2\na|2|0|1\n", string(found))
		require.NoError(t, os.Remove(db))
		require.NoError(t, os.Remove(dir+"/again"))
	}
}
