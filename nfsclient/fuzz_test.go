package nfsclient

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// FuzzResults checks that for any results from a server, every method returns,
// reports an error if the results are bad, and keeps no buffer.
func FuzzResults(f *testing.F) {
	for i, tt := range golden {
		if files, _ := filepath.Glob("../nfs/nfs3/testdata/" + tt.file + "-res.hex"); len(files) > 0 {
			f.Add(uint8(i), wiretest.Hex(f, files[0]))
		}
		f.Add(uint8(i), []byte{0, 0, 0, 2})
	}
	f.Fuzz(func(t *testing.T, which uint8, results []byte) {
		w := &fakeConn{t: t}
		w.before = func(context.Context, *oncrpc.Exchange) ([]byte, error) { return append([]byte{}, results...), nil }
		c := New(w, Config{Patience: -1})
		err := golden[int(which)%len(golden)].call(t.Context(), c)
		var refused *Error
		assert.True(t, err == nil || errors.Is(err, ErrReply) || errors.As(err, &refused), "%v", err)
		assert.Zero(t, buf.Default.Out())
	})
}

// FuzzWalk checks that a path leads to the same object as on Linux, confined to
// a directory.
func FuzzWalk(f *testing.F) {
	for _, tt := range walks {
		f.Add(tt.path, true)
		f.Add(tt.path, false)
	}
	root, err := os.OpenRoot(f.TempDir())
	require.NoError(f, err)
	f.Cleanup(func() { _ = root.Close() })
	var tree []string
	where := make(map[uint64]string) // inode to path
	for _, e := range walkTree {
		if name, target, ok := strings.Cut(e, " -> "); ok && !strings.HasPrefix(target, "/") {
			require.NoError(f, root.Symlink(target, name))
		} else if ok {
			continue // these begin at the host's root
		} else if strings.HasSuffix(e, "/") {
			require.NoError(f, root.Mkdir(strings.TrimSuffix(e, "/"), 0o755))
		} else {
			require.NoError(f, root.WriteFile(e, nil, 0o644))
		}
		tree = append(tree, e)
		name, _, _ := strings.Cut(strings.TrimSuffix(e, "/"), " -> ")
		where[inodeOf(f, root, name)] = name
	}
	where[inodeOf(f, root, ".")] = ""
	g := newTestServer(f, small, true)
	g.createTree(tree...)
	f.Fuzz(func(t *testing.T, path string, follow bool) {
		if path == "" || len(path) > 1000 || strings.Contains(path, "\x00") || path[0] == '/' || strings.Count(path, "/") > 30 {
			return // the host treats these differently
		}
		g.fakeConn.t = t
		stat, hostStat := g.fs.Stat, root.Stat
		if !follow {
			stat, hostStat = g.fs.Lstat, root.Lstat
		}
		n, err := stat(t.Context(), path)
		want, hostErr := hostStat(path)
		if hostErr != nil {
			assert.Error(t, err, "%q: the host says %v", path, hostErr)
			return
		}
		g.requireNode(path, where[want.Sys().(*syscall.Stat_t).Ino], n, nil, err)
	})
}

func inodeOf(t testing.TB, root *os.Root, name string) uint64 {
	info, err := root.Lstat(name)
	require.NoError(t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}
