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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/realm"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A slowFS has files whose reads and writes tell began that they have begun, and
// then wait until pass is closed.
type slowFS struct {
	*mem.FS
	began, pass chan struct{}
	closed      chan struct{} // receives at each end of a file
}

type slowFile struct {
	vfs.File
	fs *slowFS
}

func newSlowFS() *slowFS {
	return &slowFS{mem.New(mem.Options{Size: 1 << 30, Mode: 0o777}), make(chan struct{}, 1), make(chan struct{}), make(chan struct{}, 2)}
}

func (f *slowFile) wait() {
	f.fs.began <- struct{}{}
	<-f.fs.pass
}

func (f *slowFile) Read(ctx context.Context, p []byte, off uint64) (int, bool, error) {
	f.wait()
	return f.File.Read(ctx, p, off)
}

func (f *slowFile) Map(context.Context, uint64, int) (*buf.Buf, bool, error) { return nil, false, nil }

func (f *slowFile) Write(ctx context.Context, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, error) {
	f.wait()
	return f.File.Write(ctx, p, off, how)
}

func (f *slowFile) Close() {
	f.File.Close()
	f.fs.closed <- struct{}{}
}

func (fs *slowFS) slow(o vfs.Opened) vfs.Opened {
	if o.Read != nil {
		o.Read = &slowFile{o.Read, fs}
	}
	if o.Write != nil {
		o.Write = &slowFile{o.Write, fs}
	}
	return o
}

func (fs *slowFS) OpenFile(ctx context.Context, c *vfs.Cred, h vfs.Handle, access vfs.OpenAccess) (vfs.Opened, error) {
	o, err := fs.FS.OpenFile(ctx, c, h, access)
	return fs.slow(o), err
}

func (fs *slowFS) CreateFile(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow, access vfs.OpenAccess) (vfs.Made, vfs.Opened, error) {
	m, o, err := fs.FS.CreateFile(ctx, c, dir, name, how, access)
	return m, fs.slow(o), err
}

// transports make a Session over each transport.
var transports = map[string]func(g *rig) *Session{
	"TCP": func(g *rig) *Session { return g.connect() }, "RDMA": func(g *rig) *Session { return g.overRDMA() },
}

// none checks that nothing has come yet.
func none(t *testing.T, c chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
		t.Error(what)
	default:
	}
}

// TestCloseDuringData closes a file while a READ and a WRITE by its stateid run:
// the CLOSE does not wait, they end as if it came later, and the file then ends.
func TestCloseDuringData(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			fs := newSlowFS()
			g := newRig(t, realm.Export{Path: "/a/b", FS: fs})
			s := connect(g)
			f, err := s.Open(t.Context(), home(t, s), "f", OpenFlags{Read: true, Write: true, Create: true, Mode: 0o666})
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
			none(t, fs.closed, "the file has ended during its use")
			assert.Zero(t, g.server.Counts().Opens)
			close(fs.pass)
			for range 2 {
				if err := <-ended; err != io.EOF {
					assert.NoError(t, err)
				}
				<-fs.closed
			}
			again, err := s.Open(t.Context(), home(t, s), "f", OpenFlags{Read: true})
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

// TestExportGoesDuringWrite takes away an export while a WRITE to it runs: the
// WRITE ends in its own way, and keeps the export's files until then. Then the
// state of the export is gone, and other exports go on.
//
// R8881-8.5-1.
func TestExportGoesDuringWrite(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			fs, released := newSlowFS(), make(chan struct{})
			stays := realm.Export{Path: "/a/c", FS: mem.New(mem.Options{Size: 1 << 30, Mode: 0o777})}
			g := newRig(t, realm.Export{Path: "/a/b", FS: fs, Released: func() { close(released) }}, stays)
			s := connect(g)
			f, err := s.Open(t.Context(), home(t, s), "f", OpenFlags{Write: true, Create: true, Mode: 0o666})
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
			require.NoError(t, g.realm.SetExports([]realm.Export{stays}))
			g.server.ExportsChanged()
			none(t, fs.closed, "the file has ended during its use")
			none(t, released, "the export has ended during its use")
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
