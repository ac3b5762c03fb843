package fusefs

import (
	"context"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeShortReadFS returns no bytes from an offset on, and reports that more exist.
type fakeShortReadFS struct {
	vfs.FS
	from atomic.Uint64
}

func (f *fakeShortReadFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	n, eof, a, err := f.FS.Read(ctx, c, h, p, off)
	if from := f.from.Load(); err == nil && from > 0 && off+uint64(n) > from {
		return int(max(from, off) - off), false, a, nil
	}
	return n, eof, a, err
}

// TestReadNothing checks that an empty reply before the end of the file is an
// error. Otherwise programs would take it for the end.
func TestReadNothing(t *testing.T) {
	dry := &fakeShortReadFS{}
	s := newServer(t, func(fs vfs.FS) vfs.FS { dry.FS = fs; return dry })
	m := s.mount(nil)
	writeFile(t, s.path("a"), make([]byte, 64<<10))
	dry.from.Store(20 << 10)
	f := openAt(t, m.path("a"), os.O_RDONLY|unix.O_DIRECT)
	p := make([]byte, 64<<10)
	_, err := f.ReadAt(p, 0)
	assert.ErrorIs(t, err, unix.EIO)
	dry.from.Store(0)
	n, err := f.ReadAt(p, 0)
	require.NoError(t, err)
	assert.Equal(t, len(p), n)
	require.NoError(t, f.Close())
}
