package nfs4server

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// TestWriteBack checks that others wait for a client that returns its delegation before
// it has written back: until it closes the file, has written nothing for a while, or has
// taken its time.
func TestWriteBack(t *testing.T) {
	const pause = maxWriteBackPause * 3 / 4
	for name, tt := range map[string]struct {
		writes int
		closes bool
		waits  time.Duration // from the recall on
	}{
		"closed at once":         {0, true, pause},
		"closed when written":    {3, true, 4 * pause},
		"open":                   {3, false, 3*pause + maxWriteBackPause},
		"open, and not written":  {0, false, maxWriteBackPause},
		"open, and written on":   {100, false, maxWriteBackTime},
		"closed before it is so": {100, true, maxWriteBackTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, back := newWriteDelegServer(t)
				g.s.writeBackPause = maxWriteBackPause
				opened, put := g.openForWriting("f")
				own := g.anotherSession("client")
				done := make(chan struct{})
				back.recalled = func(*nfs4.CBRecallArgs, nfs4.CBSequenceArgs) {
					defer close(done)
					assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
					for i := range tt.writes {
						time.Sleep(pause)
						assert.Equal(t, nfs4.OK, own.writeAtStart(put, opened.StateID, string(rune('a'+i))))
					}
					time.Sleep(pause)
					if tt.closes {
						assert.Equal(t, nfs4.OK, own.closeFile(handleInStep(put), opened.StateID))
					}
				}
				o, _ := g.newClientAt("other", "192.0.2.2:700")
				var read nfs4.ReadRes
				start := time.Now()
				for {
					st, _ := o.sendSteps(put, step{nfs4.OpRead, &nfs4.ReadArgs{StateID: nfs4.AnonymousStateID, Count: 10}, &read})
					if st == nfs4.OK {
						break
					}
					require.Equal(t, nfs4.ErrDelay, st)
					if _, st = o.statStep(put); st != nfs4.OK { // no client is queried for the size
						require.Equal(t, nfs4.ErrDelay, st)
					}
				}
				assert.InDelta(t, tt.waits.Seconds(), time.Since(start).Seconds(), 0.1)
				if tt.writes == 3 {
					assert.Equal(t, "c", string(read.Data))
				}
				assert.Zero(t, g.s.exports.Holders().Len())
				assert.Equal(t, 1, back.callCount())
				<-done
			})
		})
	}
}

// TestWriteBackLocal checks that a host process waits in the same way, and that closing the
// server ends the wait.
func TestWriteBackLocal(t *testing.T) {
	for _, name := range []string{"closed", "server ended"} {
		t.Run(name, func(t *testing.T) {
			g := newSharedServer(t)
			g.s.writeBackPause = time.Hour
			opened, put := g.openForWriting("f")
			own := g.anotherSession("client")
			g.onRecall(func() {
				assert.Equal(t, nfs4.OK, own.returnDelegation(put, opened.Delegation.StateID))
				assert.Equal(t, nfs4.OK, own.writeAtStart(put, opened.StateID, "written"))
				if name == "server ended" {
					g.s.Close()
					return
				}
				assert.Equal(t, nfs4.OK, own.closeFile(handleInStep(put), opened.StateID))
			})
			data, err := os.ReadFile(g.hostPath("f"))
			require.NoError(t, err)
			assert.Equal(t, "written", string(data))
		})
	}
}

// A fakeBlockingFS lets all calls for attributes wait until it answers.
type fakeBlockingFS struct {
	vfs.FS
	inside atomic.Int64
	answer chan struct{}
}

func (fs *fakeBlockingFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	fs.inside.Add(1)
	<-fs.answer
	return fs.FS.GetAttr(ctx, c, h)
}

// TestWriteBackPermits checks that polling files that are written back takes permits, so that
// very many of them, on storage that hangs, take few threads.
func TestWriteBackPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakeBlockingFS{FS: mem.New(mem.Options{Size: 1 << 20}), answer: make(chan struct{})}
		g := newTestServer(t, exportset.Export{Path: "/x", FS: fs})
		w := &delegatedWriter{file: &delegatedFile{server: g.s}, export: g.s.exports.Snapshot().List()[0], handle: fs.Root()}
		var looks sync.WaitGroup
		for range 1000 {
			looks.Go(func() {
				_, ok := w.statFile(t.Context())
				assert.True(t, ok)
			})
		}
		synctest.Wait()
		assert.Less(t, fs.inside.Load(), int64(512))
		close(fs.answer)
		looks.Wait()
		assert.EqualValues(t, 1000, fs.inside.Load())
	})
}

// TestEndPermits checks the same for the last access to a file whose size was reported to
// others, when very many write delegations are revoked.
func TestEndPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := &fakeBlockingFS{FS: mem.New(mem.Options{Size: 1 << 20}), answer: make(chan struct{})}
		g := newTestServer(t, exportset.Export{Path: "/x", FS: fs})
		var ends sync.WaitGroup
		for range 1000 {
			w := &delegatedWriter{file: &delegatedFile{server: g.s}, export: g.s.exports.Snapshot().List()[0], handle: fs.Root()}
			require.True(t, w.NoteReported(&vfs.Attr{Type: vfs.TypeReg}))
			ends.Go(w.endWriting)
		}
		synctest.Wait()
		assert.Less(t, fs.inside.Load(), int64(512))
		close(fs.answer)
		ends.Wait()
		assert.EqualValues(t, 1000, fs.inside.Load())
	})
}
