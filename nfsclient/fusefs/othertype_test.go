package fusefs

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A fakeReplacingFS has another client replace each new object by an object of another
// type before the reply.
type fakeReplacingFS struct {
	vfs.FS
}

func (f *fakeReplacingFS) Mkdir(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, s vfs.SetAttr) (vfs.Made, error) {
	return f.FS.Mknod(ctx, c, dir, name, vfs.TypeFIFO, vfs.Dev{}, s)
}

func (f *fakeReplacingFS) Mknod(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, _ vfs.Type, _ vfs.Dev, s vfs.SetAttr) (vfs.Made, error) {
	return f.FS.Mkdir(ctx, c, dir, name, s)
}

func (f *fakeReplacingFS) Symlink(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name, _ string, s vfs.SetAttr) (vfs.Made, error) {
	return f.FS.Mkdir(ctx, c, dir, name, s)
}

func (f *fakeReplacingFS) Create(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, _ vfs.CreateHow) (vfs.Made, error) {
	return f.FS.Mkdir(ctx, c, dir, name, vfs.SetAttr{})
}

// TestMadeOther makes objects that another client replaces at once by objects
// of another type. It checks that the kernel forgets these like any others.
func TestMadeOther(t *testing.T) {
	s := newServer(t, func(fs vfs.FS) vfs.FS { return &fakeReplacingFS{fs} })
	m := s.mount(nil)
	nodes := len(m.table.listNodes())
	for name, make := range map[string]func(path string) error{
		"mkdir":   func(path string) error { return unix.Mkdir(path, 0o755) },
		"mkfifo":  func(path string) error { return unix.Mkfifo(path, 0o644) },
		"mknod":   func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o644, 0) },
		"symlink": func(path string) error { return unix.Symlink("target", path) },
		"create": func(path string) error {
			_, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
			return err
		},
	} {
		assert.ErrorIs(t, make(m.path(name)), unix.EEXIST, name)
		require.NoError(t, os.Remove(m.path(name)), name)
	}
	assert.Eventually(t, func() bool { return len(m.table.listNodes()) == nodes }, 10*time.Second, time.Millisecond, "the kernel forgot them")
}
