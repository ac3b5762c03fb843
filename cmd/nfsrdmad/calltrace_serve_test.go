package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/internal/report"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A silentFS is a file system whose GetAttr waits until hang is closed.
type silentFS struct {
	*mem.FS
	hang chan struct{}
}

func (f *silentFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	<-f.hang
	return f.FS.GetAttr(ctx, c, h)
}

// TestLocateWhileExportHangs checks that an export that hangs delays a trace once, that the objects
// of other exports are found meanwhile, and its own when it responds.
func TestLocateWhileExportHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := &silentFS{mem.New(mem.Options{}), make(chan struct{})}
		set, err := exportset.New(exportset.Config{Exports: []exportset.Export{{Path: "/hung", FS: hung}, {Path: "/well", FS: mem.New(mem.Options{})}}})
		require.NoError(t, err)
		where, start := newObjectLocator(set), time.Now()
		locate := func(i int) (c report.TracedCall) {
			e := set.Snapshot().List()[i]
			root := e.FS.Root()
			where.locate(t.Context(), &c, set.AppendHandle(nil, e, &root))
			assert.Equal(t, e.Path, c.Export)
			return c
		}
		for range 3 {
			assert.Zero(t, locate(0).FileID)
			assert.NotZero(t, locate(1).FileID)
		}
		assert.Equal(t, locateTimeout, time.Since(start))
		close(hung.hang)
		synctest.Wait()
		assert.NotZero(t, locate(0).FileID)
	})
}
