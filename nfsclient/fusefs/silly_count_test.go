package fusefs

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// delayRemoves delays the removal of hidden names until a procedure has been called.
func (m *testMount) delayRemoves(proc uint32) {
	called := make(chan struct{})
	call := sync.OnceFunc(func() { close(called) })
	m.t.Cleanup(call)
	m.setBefore(func(_ context.Context, x *oncrpc.Exchange) error {
		switch x.Proc {
		case nfs3.ProcRemove:
			<-called
		case proc:
			call()
		}
		return nil
	})
}

// TestRmdirAfterClose removes a directory whose last file has been closed and
// removed, but not yet at the server.
func TestRmdirAfterClose(t *testing.T) {
	_, m := newMount(t)
	require.NoError(t, os.Mkdir(m.path("d"), 0o755))
	f := openAt(t, m.path("d/a"), os.O_RDWR|os.O_CREATE)
	require.NoError(t, os.Remove(m.path("d/a")))
	assert.ErrorIs(t, os.Remove(m.path("d")), unix.ENOTEMPTY, "the file is open")
	m.delayRemoves(nfs3.ProcRmdir)
	require.NoError(t, f.Close())
	assert.NoError(t, os.Remove(m.path("d")))
}

// TestRenameAfterClose replaces such a directory by a rename.
func TestRenameAfterClose(t *testing.T) {
	_, m := newMount(t)
	require.NoError(t, os.Mkdir(m.path("d"), 0o755))
	require.NoError(t, os.Mkdir(m.path("e"), 0o755))
	f := openAt(t, m.path("d/a"), os.O_RDWR|os.O_CREATE)
	require.NoError(t, os.Remove(m.path("d/a")))
	m.delayRemoves(nfs3.ProcRename)
	require.NoError(t, f.Close())
	assert.NoError(t, unix.Rename(m.path("e"), m.path("d")))
}

// TestLongNames checks that the mount rejects names that are too long before
// the server sees them, because the server might not read the call.
func TestLongNames(t *testing.T) {
	_, m := newMount(t)
	long := m.path(strings.Repeat("n", 256))
	lookups := m.callCount(nfs3.ProcLookup)
	_, err := os.Lstat(long)
	assert.ErrorIs(t, err, unix.ENAMETOOLONG)
	assert.ErrorIs(t, os.Mkdir(long, 0o755), unix.ENAMETOOLONG)
	assert.ErrorIs(t, os.WriteFile(long, nil, 0o644), unix.ENAMETOOLONG)
	assert.Equal(t, lookups, m.callCount(nfs3.ProcLookup))
	writeFile(t, long[:len(long)-1], []byte("the limit itself"))
}
