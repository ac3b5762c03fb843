//go:build interop

package kerberos

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/stretchr/testify/require"
)

// scratch is a directory of all tests, which other users may read.
var scratch string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "nfsrdma-kerberos-"); err == nil {
		err = os.Chmod(scratch, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	defer ended()
	return m.Run()
}

// programs builds the programs of all tests, as they are installed, and returns their
// directory. Programs that look for another find it beside them.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "bin")
	return dir, interop.BuildPrograms(dir)
})

// built returns the path of a program.
func built(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}
