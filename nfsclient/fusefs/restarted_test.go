package fusefs

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	delegserver "github.com/nfsrdma/nfsrdma/delegation/server"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRestartUnheard restarts the server while a client receives nothing. It
// checks that the new server makes no change before that client has ceased to
// trust its cache.
func TestRestartUnheard(t *testing.T) {
	cfg := delegserver.Config{Lease: time.Second, Marker: filepath.Join(t.TempDir(), "grants"), Log: discard}
	keep, err := delegserver.New(cfg)
	require.NoError(t, err)
	t.Cleanup(keep.Close)
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

	next, err := delegserver.New(cfg)
	require.NoError(t, err)
	defer next.Close()
	h, _, _, err := root.Lookup(t.Context(), &vfs.Cred{}, root.Root(), "f")
	require.NoError(t, err)
	key, err := root.(vfs.Identifier).AppendKey(nil, h)
	require.NoError(t, err)
	var ch recall.Change
	for next.IsFenced() {
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
