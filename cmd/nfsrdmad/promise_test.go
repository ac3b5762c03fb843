package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A promisedFS remembers the latest SetExclusive.
type promisedFS struct {
	vfs.FS
	exclusive bool
}

func (f *promisedFS) SetExclusive(promised bool) { f.exclusive = promised }

// TestSharesPromise checks that a share learns whether its export is exclusive, when
// the exports are in use.
func TestSharesPromise(t *testing.T) {
	st, err := openState(t.TempDir())
	require.NoError(t, err)
	defer st.Close()
	s := newShares(st, slog.New(slog.DiscardHandler))
	fs := &promisedFS{FS: mem.New(mem.Options{})}
	s.opener = func(*export) (vfs.FS, error) { return fs, nil }
	for _, exclusive := range []bool{true, false, true} {
		list := exporting("/a")
		list[0].clients = exports.Everyone(exports.Options{Exclusive: exclusive})
		was := fs.exclusive
		_, _, drop, err := s.take(list)
		require.NoError(t, err)
		drop()
		assert.Equal(t, was, fs.exclusive, "the exports did not change")
		_, keep, _, err := s.take(list)
		require.NoError(t, err)
		keep()
		assert.Equal(t, exclusive, fs.exclusive)
	}
}
