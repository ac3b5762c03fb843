package fusefs

import (
	"errors"
	"sync"
	"testing"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/journal"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startKeeper starts a Keeper with the records in a directory. crash closes their file, so that
// the next Keeper can be started.
func startKeeper(t *testing.T, dir string) (k *delegserver.Keeper, s *nfs4state.State, crash func()) {
	j, found, err := journal.Open(dir, "clients", nfs4state.JournalHeader, nil)
	require.NoError(t, err)
	past, err := nfs4state.ReadPast(found.Records)
	require.NoError(t, err)
	start := time.Now()
	s = nfs4state.New(nfs4state.Config{
		Now: func() time.Duration { return time.Since(start) }, Epoch: past.Epoch + 1, Lease: time.Minute, Journal: j, Past: past,
	})
	k, err = delegserver.New(delegserver.Config{Lease: time.Second, Recorder: s})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return k, s, func() { require.NoError(t, j.Close()) }
}

// TestRestartUnheard restarts the server while a client receives nothing. It
// checks that the new server makes no change before that client has ceased to
// trust its cache.
func TestRestartUnheard(t *testing.T) {
	dir := t.TempDir()
	keep, _, crash := startKeeper(t, dir)
	var root vfs.FS
	s := newServerWith(t, func(fs vfs.FS) vfs.FS { root = fs; return fs }, keep, exports.Options{Exclusive: true})
	writeFile(t, s.path("f"), []byte("old"))
	m := s.mount(nil)
	require.Eventually(t, func() bool {
		_, content := statAndRead(t, m.path("f"))
		return content == "old" && m.set.Stats().Held > 1
	}, 10*time.Second, 10*time.Millisecond)
	conn := m.dial.last.Load()
	hears := conn.Pause() // the client does not notice the end of its connection either
	resume := sync.OnceFunc(func() {
		conn.Abort(errors.New("the server is another"))
		hears()
	})
	defer resume()

	crash()
	next, state, crash := startKeeper(t, dir)
	defer crash()
	h, _, _, err := root.Lookup(t.Context(), &vfs.Cred{}, root.Root(), "f")
	require.NoError(t, err)
	key, err := root.(vfs.Identifier).AppendKey(nil, h)
	require.NoError(t, err)
	var ch recall.Change
	for state.DefersChange(true) {
		time.Sleep(time.Millisecond)
	}
	require.True(t, next.Holders().Begin(&ch, recall.Changer{}, key))
	_, _, _, err = root.Write(t.Context(), &vfs.Cred{}, h, []byte("NEW"), 0, vfs.FileSync)
	require.NoError(t, err)
	next.Holders().Done(&ch)
	read := make(chan string, 1)
	go func() {
		defer close(read) // also if the read fails
		_, content := statAndRead(t, m.path("f"))
		read <- content
	}()
	select {
	case content := <-read:
		assert.Equal(t, "NEW", content)
	case <-time.After(200 * time.Millisecond): // the read asks the server
		resume()
		assert.Equal(t, "NEW", <-read)
	}
}
