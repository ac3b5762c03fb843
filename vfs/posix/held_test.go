//go:build linux

package posix

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// TestShares checks that a client gets half of the files that others leave, to open and
// to lock, and gives back what it closes.
func TestShares(t *testing.T) {
	checkCleanup(t)
	s := newExportedDir(t, "", Options{TableHandles: true, MaxFiles: 256})
	w := &testFS{t, s, s.open(t), user()}
	var handles []vfs.Handle
	for i := range 100 {
		w.hostFile(fmt.Sprint(i))
		handles = append(handles, w.walk(fmt.Sprint(i)))
	}
	before := heldFDs.Load()
	take := func(addr string) (opens, locks int, end func()) {
		ctx := vfs.WithClient(t.Context(), netip.MustParseAddr(addr))
		var ends []func()
		for _, h := range handles {
			o, err := w.f.OpenFile(ctx, &vfs.Cred{}, h, vfs.OpenRead)
			require.NoError(t, err)
			if o.Read != nil {
				opens++
			}
			ends = append(ends, o.Close)
			if l, err := w.f.OpenLocks(ctx, h); err == nil {
				locks++
				ends = append(ends, l.Close)
			} else {
				require.Equal(t, unix.EMFILE, err)
			}
		}
		return opens, locks, func() {
			for _, end := range ends {
				end()
			}
		}
	}
	const opens, locks = 256 / 2 / maxOpenCost, 256 / 4 // locks: of files that are not kept open
	for range 2 {
		o, l, end := take("192.0.2.1")
		assert.Equal(t, [2]int{opens / 2, opens/2 + locks/2}, [2]int{o, l})
		o, l, endOther := take("192.0.2.2")
		assert.Equal(t, [2]int{opens / 4, locks / 4}, [2]int{o, l}, "another client's locks are already there")
		end()
		endOther()
		assert.Equal(t, before, heldFDs.Load())
		assert.Zero(t, w.f.cache.shares.opens.Taken())
		assert.Zero(t, w.f.cache.shares.locks.Taken())
	}
}

// TestHeldBounds checks that without another bound RLIMIT_NOFILE alone says how many
// files clients may hold, in all FS together.
func TestHeldBounds(t *testing.T) {
	checkCleanup(t)
	open := func() *testFS {
		s := newExportedDir(t, "", Options{TableHandles: true})
		return &testFS{t, s, s.open(t), vfs.Cred{UID: uint32(os.Geteuid())}}
	}
	a, b := open(), open()
	assert.Equal(t, maxFiles()-maxFiles()/4, a.f.cache.max)
	assert.LessOrEqual(t, a.f.cache.maxDescriptors(), int64(defaultMaxFiles), "but idle ones are closed")
	assert.Same(t, a.f.cache.shares, b.f.cache.shares)
	a.hostFile("f")
	before, limit := heldFDs.Load(), a.f.cache.maxDescriptors()
	o := a.openFile(a.walk("f"), openBoth)
	assert.EqualValues(t, 3, heldFDs.Load()-before)
	assert.EqualValues(t, min(3, a.f.cache.budget-limit), a.f.cache.maxDescriptors()-limit)
	heldFDs.Add(b.f.cache.budget)
	b.hostFile("f")
	h := b.walk("f")
	p := b.openFile(h, openBoth)
	assert.Equal(t, vfs.Opened{}, p, "all FS have their bound together")
	_, err := b.f.OpenLocks(t.Context(), h)
	assert.Equal(t, unix.EMFILE, err)
	heldFDs.Add(-b.f.cache.budget)
	o.Close()
	assert.Equal(t, before, heldFDs.Load())
}
