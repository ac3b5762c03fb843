package report

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A hangingFS is a file system whose StatFS waits until hang is closed, unless hang is nil.
type hangingFS struct {
	*mem.FS

	mu       sync.Mutex
	hang     chan struct{}
	err      error
	requests int
}

// set sets the behavior of the following requests.
func (f *hangingFS) set(hang chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hang, f.err = hang, err
}

func (f *hangingFS) countRequests() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *hangingFS) StatFS(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.FSStat, vfs.MaybeAttr, error) {
	f.mu.Lock()
	f.requests++
	hang, err := f.hang, f.err
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if err != nil {
		return vfs.FSStat{}, vfs.MaybeAttr{}, err
	}
	return f.FS.StatFS(ctx, c, h)
}

// TestSpaceOfHungExport checks that an export that hangs delays the others for a bounded time, has
// at most one request, keeps its last known space, and is read again when it responds.
func TestSpaceOfHungExport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &hangingFS{FS: mem.New(mem.Options{Size: 1 << 20})}
		set, err := exportset.New(exportset.Config{Exports: []exportset.Export{
			{Path: "/hung", FS: hung}, {Path: "/well", FS: mem.New(mem.Options{Size: 1 << 20})}, {Path: "/gone", FS: exportset.Unavailable{}},
		}})
		require.NoError(t, err)
		var r SpaceReader
		read := func() []*Space {
			start := time.Now()
			all := r.ReadSpace(set.Snapshot().List())
			assert.LessOrEqual(t, time.Since(start), spaceTimeout)
			require.Len(t, all, 3)
			assert.Nil(t, all[2], "an export that is unavailable")
			assert.True(t, all[1].Responds)
			assert.Zero(t, set.Snapshot().List()[1].Running(), "it is no call of a client")
			return all
		}
		first := read()
		assert.True(t, first[0].Responds)
		read()
		assert.Equal(t, 1, hung.countRequests(), "an answer is used again for a short time")

		hang := make(chan struct{})
		hung.set(hang, nil)
		for range 5 {
			time.Sleep(2 * spaceFresh)
			want := *first[0]
			want.Responds = false
			assert.Equal(t, want, *read()[0])
			require.NoError(t, set.SetExports(set.Exports()), "a reload begins no second request")
		}
		assert.Equal(t, 2, hung.countRequests())
		close(hang)
		hung.set(nil, nil)
		synctest.Wait()
		assert.True(t, read()[0].Responds)
		assert.Equal(t, 2, hung.countRequests()-1, "the late answer is old")

		time.Sleep(2 * spaceFresh)
		hung.set(nil, errors.New("EIO"))
		assert.False(t, read()[0].Responds)
	})
}
