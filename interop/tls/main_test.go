//go:build interop

package tls

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/interop"
)

const bootLimit = 5 * time.Minute

// scratch is a directory of all tests, which other users may read.
var scratch string

// atEnd is called after all tests.
var atEnd = func() {}

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "nfsrdma-tls-"); err == nil {
		err = os.Chmod(scratch, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	defer func() { atEnd() }()
	return m.Run()
}

// programPath returns the path of a program that linux has built.
func programPath(name string) string { return filepath.Join(scratch, "bin", name) }

// linux builds the programs, and boots the guest of all tests.
var linux = sync.OnceValues(func() (*interop.Guest, error) {
	if os.Getuid() != 0 {
		return nil, errors.New("this test needs root: the daemon makes files of several owners")
	}
	if err := interop.BuildPrograms(filepath.Join(scratch, "bin")); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	dir, err := interop.BuildGuest(context.Background(), "../guest/build", "INTEROP_KERNEL=6.12")
	if err != nil {
		return nil, err
	}
	g, err := interop.Boot(ctx, interop.Options{Dir: dir, Forward: []int{2049, 20048}})
	if err != nil {
		return nil, err
	}
	atEnd = g.Close
	return g, g.Push(ctx, programPath("guestwork"), "/bin/guestwork")
})
