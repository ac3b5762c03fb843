package nfsserver

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeDiskFS blocks in a system call, like hanging storage, until the pipe's other end is
// closed.
type fakeDiskFS struct {
	*memFS
	fd     int
	inside *atomic.Int64 // calls
}

func (f fakeDiskFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	var b [1]byte
	f.inside.Add(1)
	_, _ = unix.Read(f.fd, b[:])
	f.inside.Add(-1)
	return f.memFS.GetAttr(ctx, c, h)
}

// countThreads returns this process's number of threads.
func countThreads(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(status), "\nThreads:")
	word, _, _ := strings.Cut(after, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(word))
	require.NoError(t, err)
	return n
}

// TestThreadsOfHungStorage checks that hanging storage takes no more threads than there are
// permits, for any number of calls.
func TestThreadsOfHungStorage(t *testing.T) {
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	var inside atomic.Int64
	g := newTestServer(t, fakeDiskFS{newMemFS(), pipe[0], &inside})
	c := newCallGroup(g)
	defer unix.Close(pipe[0])
	defer c.waiting.Wait()
	defer unix.Close(pipe[1])
	before := countThreads(t)
	args := &nfs3.HandleArgs{Object: g.handleOf(memRoot)}
	const calls = 2000
	for range calls {
		c.startCall(nfs3.ProcGetAttr, args)
	}
	require.Eventually(t, func() bool { return c.begun.Load() == calls && inside.Load() == partyPermits }, time.Minute, time.Millisecond)
	assert.Less(t, countThreads(t)-before, 256+50)
}
