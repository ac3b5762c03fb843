package nfsserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
)

func testPattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

func TestRead(t *testing.T) {
	g := newTestServer(t, newMemFS(), func(c *Config) { c.MaxPayload = 8192 })
	data := testPattern(10_001)
	fh := g.makeFile("f", data[:8192])
	g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Offset: 8192, Data: data[8192:]}, new(nfs3.WriteRes))
	for _, tt := range []struct {
		name     string
		off      uint64
		count    uint32
		maxReply int
		want     []byte
		eof      bool
	}{
		{"start", 0, 100, 0, data[:100], false},
		{"odd", 33, 77, 0, data[33:110], false},
		{"up to the end", 10_000, 1, 0, data[10_000:], true},
		{"over the end", 9_999, 100, 0, data[9_999:], true},
		{"at the end", 10_001, 100, 0, nil, true},
		{"behind the end", 1 << 40, 100, 0, nil, true},
		{"nothing", 5, 0, 0, nil, false},
		{"nothing at the end", 10_001, 0, 0, nil, true},
		{"more than rtmax", 0, 10_001, 0, data[:8192], false},
		{"behind the end of all files", 1 << 63, 100, 0, nil, true},
		{"last byte there is", math.MaxUint64, 100, 0, nil, true},
		{"over the end of all files", math.MaxInt64, 100, 0, nil, true},
		{"reply with little room", 0, 1000, 24 + nfs3.ReadHeadLen + 103, data[:100], false},
		{"reply with room for the head", 0, 1000, 24 + nfs3.ReadHeadLen, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g.maxReply = 1 << 20
			if tt.maxReply > 0 {
				g.maxReply = tt.maxReply
			}
			var res nfs3.ReadRes
			g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Offset: tt.off, Count: tt.count}, &res)
			assert.Equal(t, nfs3.OK, res.Status)
			assert.True(t, bytes.Equal(tt.want, res.Data))
			assert.EqualValues(t, len(tt.want), res.Count)
			assert.Equal(t, tt.eof, res.EOF)
			assert.EqualValues(t, 10_001, res.Attr.Attr.Size)
		})
	}
}

// TestNoRegularFile checks for NFS3ERR_INVAL, which RFC 1813, Sections 3.3.6,
// 3.3.7 and 3.3.21, require.
func TestNoRegularFile(t *testing.T) {
	g, _, fh := newScene(t)
	for _, kind := range []vfs.Type{vfs.TypeDir, vfs.TypeLnk} {
		var read nfs3.ReadRes
		g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh[kind], Count: 10}, &read)
		assert.Equal(t, nfs3.ErrInval, read.Status)
		assert.True(t, read.Attr.OK)
		var write nfs3.WriteRes
		g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh[kind], Data: []byte("x")}, &write)
		assert.Equal(t, nfs3.ErrInval, write.Status)
		assert.True(t, write.Wcc.After.OK)
		var commit nfs3.CommitRes
		g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: fh[kind]}, &commit)
		assert.Equal(t, nfs3.ErrInval, commit.Status)
		assert.True(t, commit.Wcc.After.OK)
	}
}

func TestWrite(t *testing.T) {
	fs := newMemFS()
	g := newTestServer(t, fs, func(c *Config) { c.MaxPayload = 4096 })
	fh := g.makeFile("f", nil)
	data := testPattern(5000)
	for _, apart := range []bool{false, true} {
		for _, stable := range []nfs3.Stable{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync} {
			t.Run(fmt.Sprintf("apart=%v stable=%d", apart, stable), func(t *testing.T) {
				g.apart = apart
				var res nfs3.WriteRes
				g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Offset: 3, Stable: stable, Data: data}, &res)
				assert.Equal(t, nfs3.OK, res.Status)
				assert.EqualValues(t, 4096, res.Count, "cut to wtmax")
				assert.Equal(t, stable, res.Committed)
				assert.EqualValues(t, 0x1122334455667788, res.Verf)
				assert.True(t, res.Wcc.Before.OK && res.Wcc.After.OK)
				assert.Equal(t, data[:4096], fs.nodes[100].data[3:])
			})
		}
	}
	var res nfs3.WriteRes
	g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Offset: 9999}, &res)
	assert.Equal(t, nfs3.OK, res.Status)
	assert.Zero(t, res.Count)
	assert.EqualValues(t, 4099, res.Wcc.After.Attr.Size, "nothing written, nothing grown")
}

// A fakeFullFS has space for a limited number of bytes.
type fakeFullFS struct {
	*memFS
	space int
}

func (f *fakeFullFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	if len(p) <= f.space {
		return f.memFS.Write(ctx, c, h, p, off, how)
	}
	n, how, w, _ := f.memFS.Write(ctx, c, h, p[:f.space], off, how)
	f.space = 0
	return n, how, w, syscall.ENOSPC
}

// TestWriteShort checks that a partial write succeeds, and that the error comes
// with the call that writes nothing.
func TestWriteShort(t *testing.T) {
	fs := &fakeFullFS{memFS: newMemFS(), space: 5}
	g := newTestServer(t, fs)
	fh := g.makeFile("f", nil)
	for _, want := range []struct {
		status nfs3.Status
		count  uint32
	}{{nfs3.OK, 5}, {nfs3.ErrNoSpc, 0}} {
		var res nfs3.WriteRes
		g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Data: []byte("datadata")}, &res)
		assert.Equal(t, want.status, res.Status)
		assert.Equal(t, want.count, res.Count)
	}
	assert.Equal(t, "datad", string(fs.nodes[100].data))
}

func TestWriteTooBig(t *testing.T) {
	g, fs, fh := newScene(t)
	clock := fs.clock
	for _, off := range []uint64{math.MaxInt64 - 4, math.MaxInt64, 1 << 63, math.MaxUint64} {
		var res nfs3.WriteRes
		g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh[vfs.TypeReg], Offset: off, Data: []byte("fives")}, &res)
		assert.Equal(t, nfs3.ErrFBig, res.Status, "%d", off)
		assert.True(t, res.Wcc.After.OK)
	}
	assert.Equal(t, clock, fs.clock)
}

// TestWriteCount checks that a WRITE whose count contradicts its data is
// GARBAGE_ARGS.
func TestWriteCount(t *testing.T) {
	g, _, fh := newScene(t)
	args := (&nfs3.WriteArgs{File: fh[vfs.TypeReg], Data: []byte("data")}).AppendTo(g.callHeader(nfs3.Program, 3, nfs3.ProcWrite))
	args[len(args)-12+3]-- // count
	head, _ := g.serveCall(append(args, "data"...), nil)
	stat, _ := g.parseAccepted(head)
	assert.EqualValues(t, 4, stat, "GARBAGE_ARGS")
}

// A brokenFS calls during in each Write and Commit. A test can change the
// write verifier there, as a failed Commit does.
type brokenFS struct {
	*memFS
	during func()
}

func (f *brokenFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.during()
	return f.memFS.Write(ctx, c, h, p, off, how)
}

func (f *brokenFS) Commit(ctx context.Context, c *vfs.Cred, h vfs.Handle, off uint64, n uint32) (vfs.WCC, error) {
	f.during()
	return f.memFS.Commit(ctx, c, h, off, n)
}

// TestVerifier checks that if two verifiers are possible in a reply, the reply has the one that
// makes the client send its data again.
func TestVerifier(t *testing.T) {
	fs := &brokenFS{memFS: newMemFS()}
	fs.during = func() {}
	g := newTestServer(t, fs)
	fh := g.makeFile("f", nil)
	fs.during = func() { fs.verf++ }
	old := fs.verf
	var write nfs3.WriteRes
	g.callNFS(nfs3.ProcWrite, &nfs3.WriteArgs{File: fh, Data: []byte("x")}, &write)
	assert.Equal(t, old, write.Verf)
	var commit nfs3.CommitRes
	g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: fh}, &commit)
	assert.Equal(t, old+2, commit.Verf)
}

// A fakeRangeFS records the range in a Commit or Read.
type fakeRangeFS struct {
	*memFS
	off   uint64
	count uint32
}

func (f *fakeRangeFS) Commit(ctx context.Context, c *vfs.Cred, h vfs.Handle, off uint64, n uint32) (vfs.WCC, error) {
	f.off, f.count = off, n
	return f.memFS.Commit(ctx, c, h, off, n)
}

func (f *fakeRangeFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	f.off, f.count = off, uint32(len(p))
	return f.memFS.Read(ctx, c, h, p, off)
}

// TestReadRange checks that no file system is asked for bytes beyond the
// greatest file size.
func TestReadRange(t *testing.T) {
	fs := &fakeRangeFS{memFS: newMemFS()}
	g := newTestServer(t, fs)
	fh := g.makeFile("f", nil)
	for _, tt := range []struct {
		off, seen   uint64
		count, want uint32
	}{{7, 7, 100, 100}, {math.MaxInt64 - 30, math.MaxInt64 - 30, 100, 30}, {math.MaxInt64, math.MaxInt64, 100, 0}, {1 << 63, 0, 100, 0}} {
		g.callNFS(nfs3.ProcRead, &nfs3.ReadArgs{File: fh, Offset: tt.off, Count: tt.count}, new(nfs3.ReadRes))
		assert.Equal(t, tt.seen, fs.off)
		assert.Equal(t, tt.want, fs.count)
	}
}

func TestCommitRange(t *testing.T) {
	fs := &fakeRangeFS{memFS: newMemFS()}
	g := newTestServer(t, fs)
	fh := g.makeFile("f", nil)
	for _, tt := range []struct {
		off   uint64
		count uint32
		whole bool
	}{{4096, 100, false}, {math.MaxInt64, 0, false}, {math.MaxInt64, 1, true}, {1 << 63, 0, true}} {
		g.callNFS(nfs3.ProcCommit, &nfs3.CommitArgs{File: fh, Offset: tt.off, Count: tt.count}, new(nfs3.CommitRes))
		if tt.whole {
			tt.off, tt.count = 0, 0
		}
		assert.Equal(t, tt.off, fs.off)
		assert.Equal(t, tt.count, fs.count)
	}
}

// TestReadFailure checks that a failed READ's reply keeps no buffer.
func TestReadFailure(t *testing.T) {
	g, fs, fh := newScene(t)
	fs.fail = errors.New("no errno at all")
	args := nfs3.ReadArgs{File: fh[vfs.TypeReg], Count: 10}
	head, item := g.serveCall(args.AppendTo(g.callHeader(nfs3.Program, 3, nfs3.ProcRead)), nil)
	require.Nil(t, item)
	_, results := g.parseAccepted(head)
	assert.Equal(t, xdr.AppendUint64(nil, uint64(nfs3.ErrIO)<<32), results)
	assert.Contains(t, g.log.String(), "no errno at all")
}
