package gonfs

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
	"github.com/willscott/go-nfs/helpers/memfs"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/billy"
)

// memoryHandler returns go-nfs's own handler for a file system in memory, with a file.
func memoryHandler(t testing.TB) nfs.Handler {
	t.Helper()
	fs := memfs.New()
	f, err := fs.Create("hello")
	require.NoError(t, err)
	_, err = f.Write([]byte("from memory\n"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return helpers.NewCachingHandler(helpers.NewNullAuthHandler(fs), 1024)
}

// serveAndConnect serves fs as "/x", and returns a client and the root's handle.
func serveAndConnect(t *testing.T, fs vfs.FS) (*nfsclient.Client, nfs3.FH) {
	t.Helper()
	server, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/x", FS: fs}}})
	require.NoError(t, err)
	mux := new(oncrpc.Mux)
	server.Register(mux)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	tcp := &oncrpc.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- tcp.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, tcp.Shutdown(context.Background()))
		assert.NoError(t, <-served)
	})
	conn, err := oncrpc.DialTCP(t.Context(), l.Addr().String(), oncrpc.ClientConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	root, err := nfsclient.NewMount(conn, nil).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	return nfsclient.New(conn, nfsclient.Config{}), root
}

// dirOpArgs returns a name's place in a directory.
func dirOpArgs(dir nfs3.FH, name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}
}

// TestNew checks a go-nfs handler behind the programs.
func TestNew(t *testing.T) {
	fs, err := New(memoryHandler(t))
	require.NoError(t, err)
	c, root := serveAndConnect(t, fs)
	ctx := t.Context()

	found, err := c.Lookup(ctx, root, "hello")
	require.NoError(t, err)
	data := make([]byte, 100)
	read, err := c.Read(ctx, bytes.Clone(found.Object), 0, data)
	require.NoError(t, err)
	assert.Equal(t, "from memory\n", string(data[:read.Count]))
	assert.True(t, read.EOF)

	_, err = c.Create(ctx, &nfs3.CreateArgs{Where: dirOpArgs(root, "x"), Mode: nfs3.Exclusive})
	assert.Equal(t, nfs3.ErrNotSupp, statusOf(err), "as go-nfs, if attributes cannot change")
	made, err := c.Create(ctx, &nfs3.CreateArgs{Where: dirOpArgs(root, "new"), Mode: nfs3.Guarded})
	require.NoError(t, err)
	fh := bytes.Clone(made.Object)
	wrote, err := c.Write(ctx, fh, 0, []byte("data"), nfs3.Unstable)
	require.NoError(t, err)
	assert.EqualValues(t, 4, wrote.Count)
	assert.Equal(t, nfs3.FileSync, wrote.Committed, "no COMMIT is needed")

	// In go-nfs itself the handle would be stale now.
	_, err = c.Rename(ctx, &nfs3.RenameArgs{From: dirOpArgs(root, "new"), To: dirOpArgs(root, "old")})
	require.NoError(t, err)
	read, err = c.Read(ctx, fh, 0, data)
	require.NoError(t, err)
	assert.Equal(t, "data", string(data[:read.Count]))

	space, err := c.FSStat(ctx, root)
	require.NoError(t, err)
	assert.EqualValues(t, 1<<62, space.TotalBytes)
}

// statusOf returns a call error's NFS status.
func statusOf(err error) nfs3.Status {
	e, _ := errors.AsType[*nfsclient.Error](err)
	if e == nil {
		return nfs3.OK
	}
	return e.Status
}

// A fakeHandler returns the set values.
type fakeHandler struct {
	nfs.Handler
	status nfs.MountStatus
	asked  net.Conn
	path   string
	handle int // bytes of a file handle
	stat   atomic.Pointer[error]
}

func (h *fakeHandler) Mount(ctx context.Context, c net.Conn, r nfs.MountRequest) (nfs.MountStatus, gobilly.Filesystem, []nfs.AuthFlavor) {
	h.asked, h.path = c, string(r.Dirpath)
	_, fs, flavors := h.Handler.Mount(ctx, c, r)
	return h.status, fs, flavors
}

func (h *fakeHandler) ToHandle(fs gobilly.Filesystem, path []string) []byte {
	if h.handle >= 0 {
		return make([]byte, h.handle)
	}
	return h.Handler.ToHandle(fs, path)
}

func (h *fakeHandler) FSStat(context.Context, gobilly.Filesystem, *nfs.FSStat) error {
	return *h.stat.Load()
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    *fakeHandler
		want string
	}{
		{"mount", &fakeHandler{status: nfs.MountStatusErrAcces, handle: -1}, `does not mount "/": MNT3ERR_ACCES`},
		{"long handles", &fakeHandler{handle: 45}, "a file handle of 45 bytes, must be 1 to 44"},
		{"no handles", &fakeHandler{handle: 0}, "a file handle of 0 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.h.Handler = memoryHandler(t)
			_, err := New(tt.h)
			assert.ErrorContains(t, err, tt.want)
			assert.Equal(t, "/", tt.h.path)
			assert.NotPanics(t, func() { _ = tt.h.asked.RemoteAddr().String() })
		})
	}
}

// A fakeHostFS is a file system whose root is the host's.
type fakeHostFS struct{ gobilly.Filesystem }

func (fakeHostFS) Lstat(string) (os.FileInfo, error) { return os.Lstat(".") }

// TestWithoutSync checks that the host's files are refused if nothing
// syncs them.
func TestWithoutSync(t *testing.T) {
	_, err := New(helpers.NewNullAuthHandler(fakeHostFS{memfs.New()}))
	assert.ErrorContains(t, err, "osfs.WithBoundOS")
}

// TestErrors checks that a handler's own errors become the protocol's.
func TestErrors(t *testing.T) {
	h := &fakeHandler{Handler: memoryHandler(t), handle: -1}
	fs, err := New(h)
	require.NoError(t, err)
	c, root := serveAndConnect(t, fs)
	for want, err := range map[nfs3.Status]error{
		nfs3.ErrServerFault: &nfs.NFSStatusError{NFSStatus: nfs.NFSStatusServerFault},
		nfs3.ErrIO:          errors.New("no word"),
	} {
		h.stat.Store(&err)
		_, err := c.FSStat(t.Context(), root)
		assert.Equal(t, want, statusOf(err))
	}
}

// A go-nfs handler's UnixChange implements billy.Special.
var _ billy.Special = nfs.UnixChange(nil)
