package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeExclusiveFS remembers the latest SetExclusive.
type fakeExclusiveFS struct {
	vfs.FS
	exclusive bool
}

func (f *fakeExclusiveFS) SetExclusive(promised bool) { f.exclusive = promised }

// TestSharesPromise checks that a share learns whether its export is exclusive, when
// the exports are in use.
func TestSharesPromise(t *testing.T) {
	st, err := openState(t.TempDir())
	require.NoError(t, err)
	defer st.Close()
	s := newShareSet(st, slog.New(slog.DiscardHandler))
	fs := &fakeExclusiveFS{FS: mem.New(mem.Options{})}
	s.openExport = func(*exportSpec) (vfs.FS, error) { return fs, nil }
	for _, exclusive := range []bool{true, false, true} {
		list := newExportSpecs("/a")
		list[0].clients = exports.Everyone(exports.Options{Exclusive: exclusive})
		was := fs.exclusive
		_, _, drop, err := s.acquireShares(list, tolerateNone)
		require.NoError(t, err)
		drop()
		assert.Equal(t, was, fs.exclusive, "the exports did not change")
		_, keep, _, err := s.acquireShares(list, tolerateNone)
		require.NoError(t, err)
		keep()
		assert.Equal(t, exclusive, fs.exclusive)
	}
}
