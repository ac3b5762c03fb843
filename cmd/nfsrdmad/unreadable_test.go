package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A brokenMediumFS is on a medium with an unreadable place in the middle.
type brokenMediumFS struct {
	*posix.FS
	readable int // readable bytes of a request
	lent     atomic.Int32
}

// Map lends memory that is readable up to f.from.
func (f *brokenMediumFS) Map(ctx context.Context, c *vfs.Cred, h vfs.Handle, off uint64, n int) (*buf.Buf, bool, vfs.MaybeAttr, error) {
	b, eof, a, err := f.FS.Map(ctx, c, h, off, n)
	if b == nil {
		return b, eof, a, err
	}
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	copy(mem, b.B)
	b.Release()
	if f.readable < n {
		if err := unix.Mprotect(mem[f.readable:], unix.PROT_NONE); err != nil {
			panic(err)
		}
	}
	f.lent.Add(1)
	return buf.Borrow(mem, brokenMemory{f.readable}), eof, a, nil
}

func (f *brokenMediumFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	return 0, false, vfs.MaybeAttr{}, unix.EIO
}

// A brokenMemory is memory of which the first bytes can be read.
type brokenMemory struct{ readable int }

func (brokenMemory) Return(mem []byte) { _ = unix.Munmap(mem) }

func (b brokenMemory) Reread(mem []byte, at int, p []byte) (int, error) {
	n := max(0, min(len(p), b.readable-at))
	copy(p[:n], mem[at:])
	if n < len(p) {
		return at + n, unix.EIO
	}
	return at + n, nil
}

// TestUnreadable checks that an unreadable page never looks like the end of the
// file: a READ returns only the bytes in front of that page, and the next READ
// an error.
func TestUnreadable(t *testing.T) {
	const size, asked = 8 << 20, 1 << 20
	for _, crc := range []mpa.CRC{mpa.CRCOff, mpa.CRCOn} {
		t.Run(fmt.Sprintf("crc %d", crc), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), bytes.Repeat([]byte("x"), size), 0o644))
			fs, err := posix.Open(dir, posix.Options{StateDir: t.TempDir()})
			require.NoError(t, err)
			defer func() { assert.NoError(t, fs.Close()) }()
			f := &brokenMediumFS{FS: fs}
			s, err := nfsserver.New(nfsserver.Config{Exports: []nfsserver.Export{{Path: "/x", FS: f, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}}})
			require.NoError(t, err)
			mux := new(oncrpc.Mux)
			s.Register(mux)
			l, err := iwarp.Open(iwarp.Config{CRC: crc, LongFPDUs: func(mpa.Frame) bool { return true }}).Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			srv, served := &rpcrdma.Server{Handler: mux}, make(chan error, 1)
			go func() { served <- srv.Serve(l) }()
			defer func() {
				assert.NoError(t, srv.Shutdown(context.Background()))
				assert.NoError(t, <-served)
			}()
			c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(iwarp.Config{CRC: crc}), l.Addr().String(), rpcrdma.ClientConnConfig{})
			require.NoError(t, err)
			defer c.Close()
			client, _, file := mountFile(t, c)
			p := make([]byte, asked)
			for _, from := range []int{asked / 2, asked, 0, 4096} {
				f.readable = from
				lent := f.lent.Load()
				res, err := client.Read(t.Context(), file, 0, p)
				require.Greater(t, f.lent.Load(), lent)
				if from == 0 {
					assert.ErrorIs(t, err, nfs3.ErrIO)
					continue
				}
				require.NoError(t, err)
				assert.Len(t, res.Data, from)
				assert.False(t, res.EOF)
				assert.EqualValues(t, size, res.Attr.Attr.Size)
			}
		})
	}
}
