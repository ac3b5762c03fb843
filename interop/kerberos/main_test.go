//go:build interop

package kerberos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/stretchr/testify/require"
)

// scratch is a directory of all tests, which other users may read.
var scratch string

// The tests have a network of their own, in which TCP port 2049 is free.
func TestMain(m *testing.M) {
	if os.Geteuid() == 0 { // before: the guest's packages come from another network
		if _, err := interop.BuildGuest(context.Background(), "../guest/build"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(nstest.Main(func() int { return testMain(m) }))
}

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
	defer runCleanups()
	return m.Run()
}

// programs builds the programs of all tests, as they are installed, and returns their
// directory. Programs that look for another find it next to them.
var programs = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "bin")
	return dir, interop.BuildPrograms(dir)
})

// programPath returns a program's path.
func programPath(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	return filepath.Join(dir, name)
}
