package nfsserver

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"testing"

	gobilly "github.com/go-git/go-billy/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
	"github.com/willscott/go-nfs/helpers/memfs"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/vfs/billy"
)

// memoryHandler returns go-nfs's own handler of a file system in memory, with a
// file.
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

// TestHandlerExport checks a go-nfs handler behind the programs.
func TestHandlerExport(t *testing.T) {
	fs, err := HandlerExport(memoryHandler(t))
	require.NoError(t, err)
	g := newRig(t, fs)
	root := g.root()

	var found nfs3.LookupRes
	g.call(nfs3.ProcLookup, &nfs3.DirOpArgs{Dir: root, Name: []byte("hello")}, &found)
	require.Equal(t, nfs3.OK, found.Status)
	hello := bytes.Clone(found.Object)
	var data nfs3.ReadRes
	g.call(nfs3.ProcRead, &nfs3.ReadArgs{File: hello, Count: 100}, &data)
	assert.Equal(t, "from memory\n", string(data.Data))
	assert.True(t, data.EOF)

	var made nfs3.MakeRes
	g.call(nfs3.ProcCreate, &nfs3.CreateArgs{Where: in(root, "x"), Mode: nfs3.Exclusive}, &made)
	assert.Equal(t, nfs3.ErrNotSupp, made.Status, "as go-nfs, where attributes do not change")
	g.call(nfs3.ProcCreate, &nfs3.CreateArgs{Where: in(root, "new"), Mode: nfs3.Guarded}, &made)
	require.Equal(t, nfs3.OK, made.Status)
	fh := bytes.Clone(made.Object)
	var wrote nfs3.WriteRes
	g.call(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Data: []byte("data")}, &wrote)
	assert.EqualValues(t, 4, wrote.Count)
	assert.Equal(t, nfs3.FileSync, wrote.Committed, "there is nothing to wait for")

	// In go-nfs itself the handle would be stale now.
	var renamed nfs3.RenameRes
	g.call(nfs3.ProcRename, &nfs3.RenameArgs{From: in(root, "new"), To: in(root, "old")}, &renamed)
	require.Equal(t, nfs3.OK, renamed.Status)
	g.call(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Count: 100}, &data)
	assert.Equal(t, "data", string(data.Data))

	var space nfs3.FSStatRes
	g.call(nfs3.ProcFSStat, &nfs3.HandleArgs{Object: root}, &space)
	assert.EqualValues(t, 1<<62, space.TotalBytes)
}

// root returns the file handle of the first export's root.
func (g *rig) root() nfs3.FH {
	e := g.server.set.Load().list[0]
	h := e.fs.Root()
	return g.server.seal.appendHandle(new(mac), nil, e.id, &h)
}

// An oddHandler returns the set values.
type oddHandler struct {
	nfs.Handler
	status nfs.MountStatus
	asked  net.Conn
	path   string
	handle int // bytes of a file handle
	stat   error
}

func (h *oddHandler) Mount(ctx context.Context, c net.Conn, r nfs.MountRequest) (nfs.MountStatus, gobilly.Filesystem, []nfs.AuthFlavor) {
	h.asked, h.path = c, string(r.Dirpath)
	_, fs, flavors := h.Handler.Mount(ctx, c, r)
	return h.status, fs, flavors
}

func (h *oddHandler) ToHandle(fs gobilly.Filesystem, path []string) []byte {
	if h.handle >= 0 {
		return make([]byte, h.handle)
	}
	return h.Handler.ToHandle(fs, path)
}

func (h *oddHandler) FSStat(context.Context, gobilly.Filesystem, *nfs.FSStat) error { return h.stat }

func TestHandlerRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    *oddHandler
		want string
	}{
		{"mount", &oddHandler{status: nfs.MountStatusErrAcces, handle: -1}, `does not mount "/": MNT3ERR_ACCES`},
		{"long handles", &oddHandler{handle: 45}, "a file handle of 45 bytes, where 1 to 44 can be sent"},
		{"no handles", &oddHandler{handle: 0}, "a file handle of 0 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.h.Handler = memoryHandler(t)
			_, err := HandlerExport(tt.h)
			assert.ErrorContains(t, err, tt.want)
			assert.Equal(t, "/", tt.h.path)
			assert.NotPanics(t, func() { _ = tt.h.asked.RemoteAddr().String() })
		})
	}
}

// A hostLike is a file system whose root is the host's.
type hostLike struct{ gobilly.Filesystem }

func (hostLike) Lstat(string) (os.FileInfo, error) { return os.Lstat(".") }

// TestHandlerWithoutSync checks that the host's files are refused if nothing
// syncs them.
func TestHandlerWithoutSync(t *testing.T) {
	_, err := HandlerExport(helpers.NewNullAuthHandler(hostLike{memfs.New()}))
	assert.ErrorContains(t, err, "osfs.WithBoundOS")
}

// TestHandlerFSStat checks that a handler's own errors become the protocol's.
func TestHandlerFSStat(t *testing.T) {
	h := &oddHandler{Handler: memoryHandler(t), handle: -1}
	fs, err := HandlerExport(h)
	require.NoError(t, err)
	g := newRig(t, fs)
	var res nfs3.FSStatRes
	for want, err := range map[nfs3.Status]error{
		nfs3.ErrJukebox: &nfs.NFSStatusError{NFSStatus: nfs.NFSStatusJukebox},
		nfs3.ErrIO:      errors.New("no word"),
	} {
		h.stat = err
		g.call(nfs3.ProcFSStat, &nfs3.HandleArgs{Object: g.root()}, &res)
		assert.Equal(t, want, res.Status)
	}
}

// A go-nfs handler's UnixChange implements billy.Special.
var _ billy.Special = nfs.UnixChange(nil)
