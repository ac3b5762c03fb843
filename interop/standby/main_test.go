//go:build interop

package standby

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/clusterfs"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/interop"
)

// programs is the directory with the programs of all tests.
var programs string

// The tests have a network of their own, in which all ports are free.
func TestMain(m *testing.M) {
	clusterfs.RunCommand()
	runLoadCommand()
	os.Exit(nstest.Main(func() int { return testMain(m) }))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nfsrdma-standby-")
	if err == nil {
		defer os.RemoveAll(dir)
		programs = filepath.Join(dir, "bin")
		err = interop.BuildPrograms(programs)
	}
	if err == nil {
		err = os.Mkdir(shared, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
