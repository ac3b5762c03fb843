package nfsclient

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

func TestRemoveAll(t *testing.T) {
	for _, bare := range []bool{false, true} {
		g := newTestServer(t, small, true)
		ctx := t.Context()
		g.createTree("keep/", "keep/f", "d/", "d/e/", "d/e/f", "d/out -> ../keep", "d/e/up -> ../..", "link -> keep", "f")
		for i := range 200 {
			g.createTree(fmt.Sprintf("d/f%03d", i), fmt.Sprintf("d/e/g%03d", i))
		}
		g.mem.bare = bare
		for _, path := range []string{"link/", "d", "f", "none", "keep/none/x", "d"} {
			require.NoError(t, g.fs.RemoveAll(ctx, path), path)
			_, err := g.fs.Lstat(ctx, path)
			assert.ErrorIs(t, err, fs.ErrNotExist, path)
		}
		names, err := g.readDir("")
		require.NoError(t, err)
		assert.Equal(t, []string{"keep"}, names)
		_, err = g.fs.Stat(ctx, "keep/f")
		assert.NoError(t, err, "links are removed, not followed")
		assert.Len(t, g.mem.nodes, 3, "the root, keep and keep/f")
		for _, path := range []string{"", ".", "keep/.."} {
			assert.ErrorIs(t, g.fs.RemoveAll(ctx, path), syscall.EINVAL)
		}
	}
}

// TestRemoveAllBusy checks a directory that other clients fill while it is
// emptied.
func TestRemoveAllBusy(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createTree("d/", "d/f")
	left := 3
	g.before = func(ctx context.Context, x *oncrpc.Exchange) ([]byte, error) {
		if x.Proc == nfs3.ProcRmdir && left > 0 {
			left--
			hook := g.before
			g.before = nil
			_, err := g.fs.Create(ctx, "d/again", 0o600)
			g.before = hook
			assert.NoError(t, err)
		}
		return nil, nil
	}
	require.NoError(t, g.fs.RemoveAll(t.Context(), "d"))
	require.NoError(t, g.fs.Mkdir(t.Context(), "d", 0o755))
	left = maxSweeps
	assert.ErrorIs(t, g.fs.RemoveAll(t.Context(), "d"), nfs3.ErrNotEmpty, "attempts are bounded")
}

// TestRemoveAllTogether checks that two concurrent removals of the same tree
// both succeed.
func TestRemoveAllTogether(t *testing.T) {
	g := newTestServer(t, small, false)
	g.createTree("d/")
	for i := range 20 {
		g.createTree(fmt.Sprintf("d/%d/", i), fmt.Sprintf("d/%d/f", i), fmt.Sprintf("d/%d/g", i))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, g.fs.RemoveAll(t.Context(), "d")) })
	}
	wg.Wait()
	_, err := g.fs.Stat(t.Context(), "d")
	assert.ErrorIs(t, err, fs.ErrNotExist)
}

// TestRemoveAllFails checks that the error names the object that could not be
// removed.
func TestRemoveAllFails(t *testing.T) {
	g := newTestServer(t, small, true)
	g.createTree("a/", "a/b/", "a/b/f", "a/b/c/")
	for _, tt := range []struct {
		proc uint32
		path string
	}{{nfs3.ProcRemove, "a/b/f"}, {nfs3.ProcRmdir, "a/b/c"}, {nfs3.ProcReadDirPlus, "a"}, {nfs3.ProcLookup, "a/"}} {
		g.failProc(tt.proc, nfs3.ErrAcces, 1)
		err := g.fs.RemoveAll(t.Context(), "a/")
		var pe *fs.PathError
		require.ErrorAs(t, err, &pe)
		assert.ErrorIs(t, err, fs.ErrPermission)
		assert.Equal(t, tt.path, pe.Path)
	}
}

// TestRemoveAllDeep checks that a server that invents directories without end
// does not fill our memory.
func TestRemoveAllDeep(t *testing.T) {
	g := newTestServer(t, small, true)
	deep := strings.Repeat("d/", maxTree)
	require.NoError(t, g.fs.MkdirAll(t.Context(), deep, 0o755))
	require.NoError(t, g.fs.RemoveAll(t.Context(), "d"))
	require.NoError(t, g.fs.MkdirAll(t.Context(), deep+"d", 0o755))
	assert.ErrorIs(t, g.fs.RemoveAll(t.Context(), "d"), errTreeTooDeep)
}
