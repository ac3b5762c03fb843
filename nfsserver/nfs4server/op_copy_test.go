package nfs4server

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// anyClient lets every client do everything.
func anyClient() []exports.Client {
	return exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})
}

// newDiskDir returns the file system in a new host directory, and its path.
func newDiskDir(t *testing.T) (*posix.FS, string) {
	dir := t.TempDir()
	f, err := posix.Open(dir, posix.Options{StateDir: t.TempDir(), TableHandles: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f, dir
}

// copySteps returns the steps to COPY a whole file.
func copySteps(src, dst nfs4.FH, count uint64, res *nfs4.CopyRes) []step {
	return []step{
		putStep(src),
		{nfs4.OpSaveFH, &void, newStatusRes()},
		putStep(dst),
		{nfs4.OpCopy, &nfs4.CopyArgs{Count: count, Consecutive: true, Synchronous: true}, res},
	}
}

// makeFileIn makes a file in an export.
func (g *testServer) makeFileIn(export, name, content string) nfs4.FH {
	g.t.Helper()
	var res nfs4.OpenRes
	var fh nfs4.HandleRes
	st, _ := g.sendSteps(putRootStep(), lookupStep(export), step{nfs4.OpOpen, openArgs("maker", name, nfs4.ShareBoth, 0, nfs4.Unchecked), &res}, step{nfs4.OpGetFH, &void, &fh})
	require.Equal(g.t, nfs4.OK, st)
	out := bytes.Clone(fh.Object)
	require.Equal(g.t, nfs4.OK, g.writeFile(out, res.StateID, content))
	require.Equal(g.t, nfs4.OK, g.closeFile(out, res.StateID))
	return out
}

// TestCopyBetweenExports copies from one export to another, through memory, and
// clones nothing there: R7862-15.13-7, R7862-4.1.2-1.
func TestCopyBetweenExports(t *testing.T) {
	disk, dir := newDiskDir(t)
	g := newTestServer(t, exportset.Export{Path: "/x", FS: mem.New(mem.Options{Size: 1 << 30, Mode: 0o777}), Clients: anyClient()},
		exportset.Export{Path: "/y", FS: disk, Clients: anyClient()}).connectClient().becomeRoot()
	content := strings.Repeat("0123456789", 20000)
	src, dst := g.makeFileIn("x", "src", content), g.makeFileIn("y", "dst", "")
	var res nfs4.CopyRes
	st, _ := g.sendSteps(copySteps(src, dst, 0, &res)...)
	require.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, len(content), res.Response.Count)
	assert.Equal(t, nfs4.Unstable, res.Response.Committed)
	got, err := os.ReadFile(filepath.Join(dir, "dst"))
	require.NoError(t, err)
	assert.Equal(t, content, string(got))
	st, _ = g.sendSteps(putStep(src), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(dst), step{nfs4.OpClone, &nfs4.CloneArgs{}, newStatusRes()})
	assert.Equal(t, nfs4.ErrXDev, st)
	st, _ = g.sendSteps(putStep(dst), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(src), step{nfs4.OpCopy, &nfs4.CopyArgs{Synchronous: true}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.FileSync, res.Response.Committed, "a file in memory cannot become more stable")
}

// A brokenCopier is a file system on the disk whose copies fail or do other
// things.
type brokenCopier struct {
	*posix.FS
	copy  func(from, to vfs.Part, n uint64) (uint64, error)
	align uint32
	clone func(from, to vfs.Part, n uint64) error
}

func (b *brokenCopier) CopyRange(ctx context.Context, c *vfs.Cred, from, to vfs.Part, n uint64) (uint64, error) {
	if b.copy == nil {
		return b.FS.CopyRange(ctx, c, from, to, n)
	}
	return b.copy(from, to, n)
}

func (b *brokenCopier) CloneAlign() uint32 { return b.align }

func (b *brokenCopier) CloneRange(_ context.Context, _ *vfs.Cred, from, to vfs.Part, n uint64) error {
	return b.clone(from, to, n)
}

// newCopierServer returns a connected testServer over a brokenCopier with two files.
func newCopierServer(t *testing.T, b *brokenCopier) (g *testServer, src, dst nfs4.FH) {
	b.FS, _ = newDiskDir(t)
	g = newTestServer(t, exportset.Export{Path: "/x", FS: b, Clients: anyClient()}).connectClient().becomeRoot()
	return g, g.makeFile("src", strings.Repeat("x", 8192)), g.makeFile("dst", "")
}

// TestCopyErrors checks COPYs that fail at once or in the middle, meet a source
// that becomes shorter, or whose file system cannot copy: R7862-15.2-15.
func TestCopyErrors(t *testing.T) {
	b := new(brokenCopier)
	g, src, dst := newCopierServer(t, b)
	run := func() (uint64, nfs4.Status) {
		var res nfs4.CopyRes
		st, _ := g.sendSteps(copySteps(src, dst, 8192, &res)...)
		return res.Response.Count, st
	}
	b.copy = func(_, to vfs.Part, n uint64) (uint64, error) {
		if to.Offset > 0 {
			return 0, syscall.ENOSPC
		}
		return 100, nil
	}
	n, st := run()
	assert.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 100, n, "what was copied before the error")
	b.copy = func(_, _ vfs.Part, n uint64) (uint64, error) { return 0, syscall.ENOSPC }
	_, st = run()
	assert.Equal(t, nfs4.ErrNoSpc, st, "the next call has the error")
	b.copy = func(_, _ vfs.Part, n uint64) (uint64, error) { return 0, nil }
	n, st = run()
	assert.Equal(t, nfs4.OK, st)
	assert.Zero(t, n, "the source has become shorter")
	b.copy = func(_, _ vfs.Part, n uint64) (uint64, error) { return 0, syscall.EOPNOTSUPP }
	n, st = run()
	assert.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 8192, n, "by reading and writing")
	content, st := g.readFile(dst, nfs4.StateID{})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, strings.Repeat("x", len(content)), content)
}

// A fakeStableWriter is a brokenCopier whose writes by handle are always stable.
type fakeStableWriter struct{ *brokenCopier }

func (s fakeStableWriter) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, _ vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	return s.FS.Write(ctx, c, h, p, off, vfs.FileSync)
}

// TestCopyCommitted checks that a copy is as stable as its least stable part.
func TestCopyCommitted(t *testing.T) {
	b := new(brokenCopier)
	b.FS, _ = newDiskDir(t)
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fakeStableWriter{b}, Clients: anyClient()}).connectClient().becomeRoot()
	src, dst := g.makeFile("src", strings.Repeat("x", 8192)), g.makeFile("dst", "")
	for copied, want := range map[uint64]nfs4.Stable{0: nfs4.FileSync, 100: nfs4.Unstable} {
		b.copy = func(_, to vfs.Part, n uint64) (uint64, error) {
			if to.Offset == 0 && copied > 0 {
				return copied, nil
			}
			return 0, syscall.EOPNOTSUPP
		}
		var res nfs4.CopyRes
		st, _ := g.sendSteps(copySteps(src, dst, 8192, &res)...)
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 8192, res.Response.Count)
		assert.Equal(t, want, res.Response.Committed, "%d bytes by the file system", copied)
	}
}

// TestClone checks which ranges CLONE passes to the file system, and the
// attribute that shows that it can: R7862-12.2.1-1, R7862-4.1.2-4,
// R7862-15.13-3, R7862-15.13-4, R7862-15.13-5, R7862-15.13-7, R7862-12.1-2.
func TestClone(t *testing.T) {
	b := &brokenCopier{align: 4096}
	g, src, dst := newCopierServer(t, b)
	var got []uint64
	b.clone = func(from, to vfs.Part, n uint64) error {
		got = []uint64{from.Offset, to.Offset, n}
		return nil
	}
	run := func(src, dst nfs4.FH, a nfs4.CloneArgs) nfs4.Status {
		got = nil
		st, _ := g.sendSteps(putStep(src), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(dst), step{nfs4.OpClone, &a, newStatusRes()})
		return st
	}
	assert.Equal(t, nfs4.OK, run(src, dst, nfs4.CloneArgs{}))
	assert.Equal(t, []uint64{0, 0, 8192}, got)
	assert.Equal(t, nfs4.OK, run(src, dst, nfs4.CloneArgs{SrcOffset: 4096, DstOffset: 1 << 20, Count: 4096}))
	assert.Equal(t, []uint64{4096, 1 << 20, 4096}, got)
	assert.Equal(t, nfs4.OK, run(src, dst, nfs4.CloneArgs{SrcOffset: 8192}))
	assert.Nil(t, got, "nothing is left")
	for _, a := range []nfs4.CloneArgs{
		{SrcOffset: 1},
		{DstOffset: 4095},
		{Count: 4097},
		{SrcOffset: 4096, Count: 8192},
		{SrcOffset: 12288},
	} {
		assert.Equal(t, nfs4.ErrInval, run(src, dst, a), a)
		assert.Nil(t, got, a)
	}
	long := g.makeFile("long", string(make([]byte, 3*4096)))
	for _, a := range []nfs4.CloneArgs{{DstOffset: 4096}, {SrcOffset: 4096}, {}} {
		a.Count = 2 * 4096
		assert.Equal(t, nfs4.ErrInval, run(long, long, a), "the ranges overlap: %+v", a)
		assert.Nil(t, got, a)
	}
	assert.Equal(t, nfs4.OK, run(src, src, nfs4.CloneArgs{DstOffset: 8192}))
	b.clone = func(_, _ vfs.Part, _ uint64) error { return syscall.EXDEV }
	assert.Equal(t, nfs4.ErrXDev, run(src, dst, nfs4.CloneArgs{}))

	a := g.getAttrs(src, nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrCloneBlkSize))
	assert.True(t, a.SupportedAttrs.Has(nfs4.AttrCloneBlkSize))
	assert.EqualValues(t, 4096, a.CloneBlkSize)
	g.minor = nfs4.Minor1
	g.connectAs("client of 4.1")
	a = g.getAttrs(src, nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrCloneBlkSize))
	assert.False(t, a.SupportedAttrs.Has(nfs4.AttrCloneBlkSize))
	assert.Zero(t, a.SupportedAttrs.Words[2]&^uint32(0x1fff), "minor version 1 has no attribute from 77 on")
}

// TestCopyRights checks that the caller needs the rights to both files, and that
// the export must be writable.
func TestCopyRights(t *testing.T) {
	g, _ := newFileServer(t, false)
	g.becomeRoot()
	src, dst := g.makeFile("src", "data"), g.makeFile("dst", "")
	g.cred.UID, g.cred.GID = 1000, 1000
	run := func(src, dst nfs4.FH) nfs4.Status {
		st, _ := g.sendSteps(copySteps(src, dst, 0, new(nfs4.CopyRes))...)
		return st
	}
	assert.Equal(t, nfs4.ErrAccess, run(src, dst), "of root with mode 0644")
	own := g.makeFile("own", "")
	assert.Equal(t, nfs4.OK, run(src, own))

	fs := mem.New(mem.Options{Size: 1 << 30, Mode: 0o777})
	_, err := fs.Create(t.Context(), &vfs.Cred{}, fs.Root(), "f", vfs.CreateHow{})
	require.NoError(t, err)
	ro := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true, ReadOnly: true})}).connectClient().becomeRoot()
	for op, args := range map[nfs4.Op]nfs4.Message{
		nfs4.OpAllocate: &nfs4.RangeArgs{Length: 1}, nfs4.OpDeallocate: &nfs4.RangeArgs{Length: 1}, nfs4.OpClone: &nfs4.CloneArgs{SrcOffset: 0},
	} {
		st, _ := ro.sendSteps(putRootStep(), lookupStep("x"), lookupStep("f"), step{nfs4.OpSaveFH, &void, newStatusRes()}, step{op, args, newStatusRes()})
		assert.Equal(t, nfs4.ErrROFS, st, op)
	}
}

// A fakePlainFS hides all that a file system has besides vfs.FS.
type fakePlainFS struct{ vfs.FS }

// TestPlain checks a file system that cannot report its storage, and copies nothing itself:
// R7862-15.1-7, R7862-15.11-4.
func TestPlain(t *testing.T) {
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fakePlainFS{mem.New(mem.Options{Size: 1 << 30, Mode: 0o777})}, Clients: anyClient()}).connectClient().becomeRoot()
	fh, dst := g.makeFile("f", "0123456789"), g.makeFile("dst", "")
	for _, op := range []nfs4.Op{nfs4.OpAllocate, nfs4.OpDeallocate} {
		st, _ := g.sendSteps(putStep(fh), step{op, &nfs4.RangeArgs{Length: 5}, newStatusRes()})
		assert.Equal(t, nfs4.ErrNotSupp, st, op)
	}
	for _, tt := range []struct {
		off  uint64
		what nfs4.Content
		want nfs4.SeekRes
	}{
		{3, nfs4.ContentData, nfs4.SeekRes{Offset: 3}},
		{3, nfs4.ContentHole, nfs4.SeekRes{Offset: 10, EOF: true}},
	} {
		var res nfs4.SeekRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSeek, &nfs4.SeekArgs{Offset: tt.off, What: tt.what}, &res})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, tt.want, res)
	}
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSeek, &nfs4.SeekArgs{Offset: 10}, new(nfs4.SeekRes)})
	assert.Equal(t, nfs4.ErrNXIO, st)
	var advised nfs4.IOAdviseRes
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpIOAdvise, &nfs4.IOAdviseArgs{Hints: nfs4.BitmapOf(nfs4.AdviseRandom)}, &advised})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.BitmapOf(nfs4.AdviseNormal), advised.Hints, "nothing is followed")
	var res nfs4.CopyRes
	st, _ = g.sendSteps(copySteps(fh, dst, 0, &res)...)
	assert.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 10, res.Response.Count)
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(dst), step{nfs4.OpClone, &nfs4.CloneArgs{}, newStatusRes()})
	assert.Equal(t, nfs4.ErrNotSupp, st)
	rest := [2]string{}
	for i, fh := range []nfs4.FH{fh, dst} {
		rest[i], st = g.readFile(fh, nfs4.StateID{})
		assert.Equal(t, nfs4.OK, st)
	}
	assert.Equal(t, rest[0], rest[1])
}

// TestReadPlusBesideChunk checks that READ_PLUS data never goes into a Write chunk, and that it
// uses no more than the available space: R7862-15.10-9.
func TestReadPlusBesideChunk(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	content := strings.Repeat("0123456789", 1000)
	fh := g.makeFile("f", content)
	for _, tt := range []struct {
		itemLimits []int
		maxReply   int
		count      uint32
	}{
		{nil, 1 << 20, 5000},
		{[]int{4096}, 1 << 20, 5000},
		{[]int{4096}, 4096 + 1000, 5000},
		{[]int{1 << 19}, 1 << 20, 7},
	} {
		res := new(readPlusRes)
		steps := []step{putStep(fh), {nfs4.OpReadPlus, &nfs4.ReadArgs{Offset: 1, Count: tt.count}, res}}
		var rep oncrpc.Reply
		g.serveCompound(&rep, tt.maxReply, tt.itemLimits, steps...)
		assert.Equal(t, tt.itemLimits == nil, rep.Item != nil, "an item")
		whole := bytes.Clone(rep.Head)
		for _, part := range rep.AppendBody(nil) {
			whole = append(whole, part...)
		}
		assert.Equal(t, len(whole), rep.Len())
		rep.DropItem()
		g.checkResults(whole, nfs4.OK, steps)
		got := string(res.part.Data)
		assert.NotEmpty(t, got)
		assert.LessOrEqual(t, len(got), int(tt.count))
		assert.Equal(t, content[1:1+len(got)], got)
	}
}

// A readPlusRes is READ_PLUS results with one segment.
type readPlusRes struct {
	nfs4.ReadPlusRes
	part nfs4.Segment
}

func (p *readPlusRes) Decode(r *xdr.Reader) {
	p.ReadPlusRes.Decode(r)
	if p.Status == nfs4.OK && p.N > 0 {
		p.part.Decode(r)
	}
}

// TestReadPlusHoles checks where READ_PLUS cuts data and holes: at a long hole,
// but not at a short one, and never beyond the requested range (R7862-15.10-4,
// R7862-15.10-6).
func TestReadPlusHoles(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", strings.Repeat("x", 4096))
	for _, off := range []uint64{8192, 1 << 20} { // after a hole of 4 KiB, and a long one
		var res nfs4.WriteRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Offset: off, Data: bytes.Repeat([]byte("y"), 4096)}, &res})
		require.Equal(t, nfs4.OK, st)
	}
	for _, tt := range []struct {
		off     uint64
		count   uint32
		what    nfs4.Content
		n       int
		eof     bool
		comment string
	}{
		{0, 1 << 19, nfs4.ContentData, 1 << 19, false, "only the first hole counts, and it is short"},
		{8192, 1 << 19, nfs4.ContentData, 4096, false, "data up to a long hole"},
		{4096, 4096, nfs4.ContentHole, 4096, false, "a short hole that is all of the range"},
		{5000, 100, nfs4.ContentHole, 100, false, "a part of it"},
		{4096, 8192, nfs4.ContentData, 8192, false, "a short hole and data"},
		{12288, 1000, nfs4.ContentHole, 1000, false, "a part of the long hole"},
		{12288, 1 << 20, nfs4.ContentHole, 1<<20 - 12288, false, "all of it"},
		{1 << 20, 5000, nfs4.ContentData, 4096, true, "the end"},
	} {
		res := new(readPlusRes)
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpReadPlus, &nfs4.ReadArgs{Offset: tt.off, Count: tt.count}, res})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, tt.what, res.part.What, tt.comment)
		assert.Equal(t, tt.off, res.part.Offset, tt.comment)
		assert.Equal(t, tt.n, len(res.part.Data)+int(res.part.Length), tt.comment)
		assert.Equal(t, tt.eof, res.EOF, tt.comment)
	}
}

// TestReadPlusOfHoles checks the end of a file that is a hole.
func TestReadPlusOfHoles(t *testing.T) {
	g := newTestServer(t).connectClient().becomeRoot()
	fh := g.makeFile("f", "")
	require.Equal(t, nfs4.OK, g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 1 << 20}))
	for count, eof := range map[uint32]bool{1<<20 - 1: false, 1 << 20: true, 1 << 21: true} {
		res := new(readPlusRes)
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpReadPlus, &nfs4.ReadArgs{Count: count}, res})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, nfs4.ContentHole, res.part.What)
		assert.EqualValues(t, min(count, 1<<20), res.part.Length)
		assert.Equal(t, eof, res.EOF, count)
	}
}

// TestRightsWithoutData checks that READ_PLUS and SEEK need the right to read also if they
// read nothing.
func TestRightsWithoutData(t *testing.T) {
	whole := mem.New(mem.Options{Size: 1 << 20, Mode: 0o777})
	for name, fs := range map[string]vfs.FS{"with holes": whole, "plain": fakePlainFS{whole}} {
		g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: anyClient()}).connectClient().becomeRoot()
		fh := g.makeFile("f", "secret")
		require.Equal(t, nfs4.OK, g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o600}))
		for uid, want := range map[uint32]nfs4.Status{0: nfs4.OK, 1000: nfs4.ErrAccess} {
			g.cred.UID = uid
			for _, s := range []step{
				{nfs4.OpReadPlus, &nfs4.ReadArgs{Offset: 100, Count: 1}, new(readPlusRes)},
				{nfs4.OpReadPlus, &nfs4.ReadArgs{}, new(readPlusRes)},
				{nfs4.OpSeek, &nfs4.SeekArgs{}, new(nfs4.SeekRes)},
			} {
				st, _ := g.sendSteps(putStep(fh), s)
				assert.Equal(t, want, st, "%s: %s by %d", name, s.op, uid)
			}
		}
	}
}

// TestDataAndDelegations checks that a copy, and a change to a file's storage, wait for
// mountrdma mounts that may hold the file, and that other data operations do not.
//
// R7862-15.2-17.
func TestDataAndDelegations(t *testing.T) {
	e := newMemoryExport("/x", free)
	g := newTestServer(t, e).becomeRoot().connectClient()
	g.makeFile("src", "source")
	g.makeFile("dst", "target")
	g.restartAfterCrash(e)
	src, dst := g.lookupPath("x", "src"), g.lookupPath("x", "dst")
	var res nfs4.CopyRes
	st, _ := g.sendSteps(copySteps(src, dst, 0, &res)...)
	assert.Equal(t, nfs4.ErrDelay, st)
	for _, op := range []nfs4.Op{nfs4.OpAllocate, nfs4.OpDeallocate} {
		st, _ = g.sendSteps(putStep(dst), step{op, &nfs4.RangeArgs{Length: 4}, newStatusRes()})
		assert.Equal(t, nfs4.ErrDelay, st, op)
	}
	st, _ = g.sendSteps(putStep(dst), step{nfs4.OpSeek, &nfs4.SeekArgs{}, new(nfs4.SeekRes)})
	assert.Equal(t, nfs4.OK, st)
	st, _ = g.sendSteps(putStep(dst), step{nfs4.OpIOAdvise, &nfs4.IOAdviseArgs{}, new(nfs4.IOAdviseRes)})
	assert.Equal(t, nfs4.OK, st)
	var read nfs4.ReadRes
	st, _ = g.sendSteps(putStep(dst), step{nfs4.OpRead, &nfs4.ReadArgs{Count: 100}, &read})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, "target", string(read.Data))
}
