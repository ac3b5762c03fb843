package nfs4client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeSlowFS has files whose reads and writes send to began when they start,
// and then wait until pass is closed.
type fakeSlowFS struct {
	*mem.FS
	began, pass chan struct{}
	closed      chan struct{} // receives when a file is closed
}

type fakeSlowFile struct {
	vfs.File
	fs *fakeSlowFS
}

func newSlowFS() *fakeSlowFS {
	return &fakeSlowFS{mem.New(mem.Options{Size: 1 << 30, Mode: 0o777}), make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 2)}
}

func (f *fakeSlowFile) waitForPass() {
	f.fs.began <- struct{}{}
	<-f.fs.pass
}

func (f *fakeSlowFile) Read(ctx context.Context, p []byte, off uint64) (int, bool, error) {
	f.waitForPass()
	return f.File.Read(ctx, p, off)
}

func (f *fakeSlowFile) Map(context.Context, uint64, int) (*buf.Buf, bool, error) {
	return nil, false, nil
}

func (f *fakeSlowFile) Write(ctx context.Context, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, error) {
	f.waitForPass()
	return f.File.Write(ctx, p, off, how)
}

func (f *fakeSlowFile) Close() {
	f.File.Close()
	f.fs.closed <- struct{}{}
}

func (fs *fakeSlowFS) slowDown(o vfs.Opened) vfs.Opened {
	if o.Read != nil {
		o.Read = &fakeSlowFile{o.Read, fs}
	}
	if o.Write != nil {
		o.Write = &fakeSlowFile{o.Write, fs}
	}
	return o
}

func (fs *fakeSlowFS) OpenFile(ctx context.Context, c *vfs.Cred, h vfs.Handle, access vfs.OpenAccess) (vfs.Opened, error) {
	o, err := fs.FS.OpenFile(ctx, c, h, access)
	return fs.slowDown(o), err
}

func (fs *fakeSlowFS) CreateFile(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow, access vfs.OpenAccess) (vfs.Made, vfs.Opened, error) {
	m, o, err := fs.FS.CreateFile(ctx, c, dir, name, how, access)
	return m, fs.slowDown(o), err
}

// transports make a Session over each transport.
var transports = map[string]func(g *testServer) *Session{
	"TCP": func(g *testServer) *Session { return g.newSession() }, "RDMA": func(g *testServer) *Session { return g.newRDMASession() },
}

// requireNone checks that nothing has come yet.
func requireNone(t *testing.T, c chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
		t.Error(what)
	default:
	}
}

// TestCloseDuringData closes a file while a READ and a WRITE with its stateid
// run: the CLOSE does not wait, they complete as if it came later, and the file
// is then closed.
func TestCloseDuringData(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			fs := newSlowFS()
			g := newTestServer(t, exportset.Export{Path: "/a/b", FS: fs})
			s := connect(g)
			f, err := s.Open(t.Context(), exportRoot(t, s), "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
			require.NoError(t, err)
			data := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
			ended := make(chan error, 2)
			go func() {
				_, err := f.WriteAt(t.Context(), data, 0, nfs4.FileSync)
				ended <- err
			}()
			<-fs.began
			go func() {
				_, err := f.ReadAt(t.Context(), make([]byte, 8), 1<<20)
				ended <- err
			}()
			<-fs.began
			require.NoError(t, f.Close(t.Context()))
			requireNone(t, fs.closed, "the file has ended during its use")
			assert.Zero(t, g.server.Counts().Opens)
			close(fs.pass)
			for range 2 {
				if err := <-ended; err != io.EOF {
					assert.NoError(t, err)
				}
				<-fs.closed
			}
			again, err := s.Open(t.Context(), exportRoot(t, s), "f", OpenFlags{Read: true})
			require.NoError(t, err)
			go func() { <-fs.began }()
			p := make([]byte, len(data))
			n, err := again.ReadAt(t.Context(), p, 0)
			assert.Equal(t, io.EOF, err)
			assert.True(t, bytes.Equal(data, p[:n]), "the data written")
			require.NoError(t, again.Close(t.Context()))
		})
	}
}

// TestExportGoesDuringWrite removes an export while a WRITE to it runs: the
// WRITE completes, and keeps the export's files until then. Then the export's
// state is gone, and other exports are not affected.
//
// R8881-8.5-1.
func TestExportGoesDuringWrite(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			fs, released := newSlowFS(), make(chan struct{})
			stays := exportset.Export{Path: "/a/c", FS: mem.New(mem.Options{Size: 1 << 30, Mode: 0o777})}
			g := newTestServer(t, exportset.Export{Path: "/a/b", FS: fs, Released: func() { close(released) }}, stays)
			s := connect(g)
			f, err := s.Open(t.Context(), exportRoot(t, s), "f", OpenFlags{Write: true, Create: true, Mode: 0o666})
			require.NoError(t, err)
			dir, err := s.Walk(t.Context(), "/a/c")
			require.NoError(t, err)
			other, err := s.Open(t.Context(), dir, "f", OpenFlags{Write: true, Create: true, Mode: 0o666})
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() {
				_, err := f.WriteAt(t.Context(), make([]byte, 1<<16), 0, nfs4.FileSync)
				ended <- err
			}()
			<-fs.began
			require.NoError(t, g.realm.SetExports([]exportset.Export{stays}))
			requireNone(t, fs.closed, "the file has ended during its use")
			requireNone(t, released, "the export has ended during its use")
			_, err = f.WriteAt(t.Context(), make([]byte, 8), 0, nfs4.FileSync)
			assert.ErrorIs(t, err, nfs4.ErrStale)
			_, err = other.WriteAt(t.Context(), make([]byte, 8), 0, nfs4.FileSync)
			assert.NoError(t, err)
			close(fs.pass)
			assert.NoError(t, <-ended, "the WRITE was permitted when it began")
			<-fs.closed
			<-released
			err = f.Close(t.Context())
			assert.True(t, errors.Is(err, nfs4.ErrStale) || errors.Is(err, ErrRevoked), "%v", err)
			require.NoError(t, other.Close(t.Context()))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			assert.NoError(t, s.Sequence(ctx))
		})
	}
}
