package nfs4server

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
)

// A fakeWatchedFS tells how it was asked for stable storage, and fails on demand.
type fakeWatchedFS struct {
	*mem.FS
	verifier uint64
	most     int // bytes that a Write takes
	fail     error
	how      []vfs.Stable
	commits  [][2]uint64 // offset and count
}

func (f *fakeWatchedFS) WriteVerifier() uint64 { return f.verifier }

// A fakeLosingFS loses other clients' unstable data during each Write and Commit, if it is
// armed: its verifier changes.
type fakeLosingFS struct {
	*fakeWatchedFS
	armed bool
}

func (f *fakeLosingFS) loseData() {
	if f.armed {
		f.verifier++
	}
}

func (f *fakeLosingFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.loseData()
	return f.fakeWatchedFS.Write(ctx, c, h, p, off, how)
}

func (f *fakeLosingFS) Commit(ctx context.Context, c *vfs.Cred, h vfs.Handle, off uint64, count uint32) (vfs.WCC, error) {
	f.loseData()
	return f.fakeWatchedFS.Commit(ctx, c, h, off, count)
}

func (f *fakeWatchedFS) GetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle) (vfs.Attr, error) {
	if f.fail != nil {
		return vfs.Attr{}, f.fail
	}
	return f.FS.GetAttr(ctx, c, h)
}

func (f *fakeWatchedFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	f.how = append(f.how, how)
	n, done, wcc, err := f.FS.Write(ctx, c, h, p[:min(len(p), f.most)], off, how)
	if err == nil && n < len(p) {
		err = syscall.ENOSPC
	}
	return n, done, wcc, err
}

func (f *fakeWatchedFS) Commit(ctx context.Context, c *vfs.Cred, h vfs.Handle, off uint64, count uint32) (vfs.WCC, error) {
	f.commits = append(f.commits, [2]uint64{off, uint64(count)})
	return f.FS.Commit(ctx, c, h, off, count)
}

func newWatchedServer(t *testing.T) (*testServer, *fakeWatchedFS) {
	fs := &fakeWatchedFS{FS: mem.New(mem.Options{Size: 1 << 20}), verifier: 1, most: 1 << 20}
	return newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}).connectClient().becomeRoot(), fs
}

// TestStable checks WRITE's and COMMIT's requests to the file system, and their verifiers
// (R8881-18.3.3-1, R8881-18.3.3-2, R8881-18.32.3-1, R8881-18.32.3-2).
func TestStable(t *testing.T) {
	g, fs := newWatchedServer(t)
	fh := g.makeFile("f", "")
	fs.how = nil
	verfs := map[nfs4.Verifier]int{}
	for _, how := range []nfs4.Stable{nfs4.Unstable, nfs4.DataSync, nfs4.FileSync} {
		var res nfs4.WriteRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Stable: how, Data: []byte("data")}, &res})
		assert.Equal(t, nfs4.OK, st)
		assert.Equal(t, vfs.Stable(how), fs.how[len(fs.how)-1])
		assert.GreaterOrEqual(t, res.Committed, how)
		verfs[res.Verf]++
	}
	ranges := [][2]uint64{{0, 0}, {2, 0}, {1, 3}, {100, 5}}
	for _, r := range ranges {
		var res nfs4.CommitRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpCommit, &nfs4.CommitArgs{Offset: r[0], Count: uint32(r[1])}, &res})
		assert.Equal(t, nfs4.OK, st, r)
		verfs[res.Verf]++
	}
	assert.Equal(t, ranges, fs.commits)
	assert.Len(t, verfs, 1, "one instance, one verifier")
	fs.verifier = 2
	var wrote nfs4.WriteRes
	var committed nfs4.CommitRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("data")}, &wrote}, step{nfs4.OpCommit, &nfs4.CommitArgs{}, &committed})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, wrote.Verf, committed.Verf)
	assert.NotContains(t, verfs, wrote.Verf, "data may have been lost")
}

// TestAsync checks an export whose owner gives up stable storage: the
// server tells clients the stability that the clients requested (R8881-18.32.3-1).
func TestAsync(t *testing.T) {
	g, fs := newWatchedServer(t)
	async := free
	async.Async = true
	require.NoError(t, g.s.exports.SetExports([]exportset.Export{{Path: "/x", FS: fs, Clients: exports.Everyone(async)}}))
	fh := g.makeFile("f", "")
	for _, how := range []nfs4.Stable{nfs4.Unstable, nfs4.DataSync, nfs4.FileSync} {
		var res nfs4.WriteRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Stable: how, Data: []byte("data")}, &res},
			step{nfs4.OpCommit, &nfs4.CommitArgs{}, new(nfs4.CommitRes)})
		assert.Equal(t, nfs4.OK, st)
		assert.GreaterOrEqual(t, res.Committed, how)
		assert.Equal(t, vfs.Unstable, fs.how[len(fs.how)-1])
	}
	assert.Empty(t, fs.commits)
}

// TestShortWrite checks a WRITE that runs out of space before its end
// (R8881-18.32.3-3), and one without data (R8881-18.32.4-1).
//
// R8881-18.32.4-2.
func TestShortWrite(t *testing.T) {
	g, fs := newWatchedServer(t)
	fh := g.makeFile("f", "")
	fs.most = 3
	var res nfs4.WriteRes
	var attr nfs4.GetAttrRes
	size := nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrChange)
	before := g.getAttrs(fh, size)
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("abcdef")}, &res}, step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: size}, &attr})
	assert.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, 3, res.Count)
	assert.EqualValues(t, 3, attr.Attrs.Size, "R8881-18.32.4-4: GETATTR behind WRITE sees it")
	assert.NotEqual(t, before.Change, attr.Attrs.Change)
	fs.most = 0
	assert.Equal(t, nfs4.ErrNoSpc, g.writeFile(fh, nfs4.AnonymousStateID, "def"))
	times := nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrTimeModify, nfs4.AttrSize)
	before = g.getAttrs(fh, times)
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpWrite, &nfs4.WriteArgs{Offset: 100}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.Zero(t, res.Count)
	assert.Equal(t, before, g.getAttrs(fh, times))
}

// TestGetAttrFails checks that GETATTR returns no attributes if one cannot be had
// (R8881-18.7.3-1).
func TestGetAttrFails(t *testing.T) {
	g, fs := newWatchedServer(t)
	fh := g.makeFile("f", "")
	for err, want := range map[error]nfs4.Status{syscall.EIO: nfs4.ErrIO, syscall.EACCES: nfs4.ErrAccess, syscall.ESTALE: nfs4.ErrStale} {
		fs.fail = err
		st, n := g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrType)}, new(nfs4.GetAttrRes)})
		assert.Equal(t, want, st)
		assert.Equal(t, 2, n)
	}
}

// TestAccess checks ACCESS for each set of rights and each type (R8881-18.1.3-1 to -4).
//
// R8881-18.1.3-2, R8881-18.1.3-3, R8881-18.1.3-4.
func TestAccess(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	fhs := g.makeObjects()
	access := func(fh nfs4.FH, ask uint32) (supported, allowed uint32, st nfs4.Status) {
		var res nfs4.AccessRes
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: ask}, &res})
		return res.Supported, res.Access, st
	}
	for name, fh := range fhs {
		for ask := range uint32(0x40) {
			supported, allowed, st := access(fh, ask)
			assert.Equal(t, nfs4.OK, st)
			assert.Zero(t, supported&^ask, name)
			assert.Zero(t, allowed&^supported, name)
			if name == "dir" {
				assert.Zero(t, supported&nfs4.AccessExecute)
			} else {
				assert.Zero(t, supported&(nfs4.AccessLookup|nfs4.AccessDelete), name)
			}
		}
		_, _, st := access(fh, 0x200)
		assert.Equal(t, nfs4.ErrInval, st)
	}
	mode := func(m uint32) {
		require.Equal(t, nfs4.OK, g.becomeRoot().setAttrs(fhs["file"], nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: m}))
	}
	const read, execute = nfs4.AccessRead, nfs4.AccessExecute
	for m, want := range map[uint32]uint32{0o600: read, 0o100: read | execute, 0o001: read | execute} {
		mode(m)
		_, allowed, _ := access(fhs["file"], read|execute)
		assert.Equal(t, want, allowed, "the superuser, mode %o", m)
	}
	for m, want := range map[uint32]uint32{0o711: execute, 0o744: read, 0o755: read | execute, 0o770: 0} {
		mode(m)
		g.cred.UID, g.cred.GID = 1000, 1000
		_, allowed, _ := access(fhs["file"], read|execute)
		assert.Equal(t, want, allowed, "a user, mode %o", m)
	}
}

// TestAccessOfOpens checks that OPEN checks its caller's rights, and that READ and WRITE check
// their callers' rights, even for another's open (R8881-18.16.4-2, R8881-18.16.4-3,
// R8881-18.22.3-1).
//
// R8881-18.16.3-15.
func TestAccessOfOpens(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	for m, want := range map[uint32][3]nfs4.Status{ // by modes of others: to read, to write, both
		0o600: {nfs4.ErrAccess, nfs4.ErrAccess, nfs4.ErrAccess}, 0o604: {nfs4.OK, nfs4.ErrAccess, nfs4.ErrAccess},
		0o602: {nfs4.ErrAccess, nfs4.OK, nfs4.ErrAccess}, 0o606: {nfs4.OK, nfs4.OK, nfs4.OK},
	} {
		require.Equal(t, nfs4.OK, g.becomeRoot().setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: m}))
		opened, _, st := g.openName(openArgs("root", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
		g.cred.UID, g.cred.GID = 1000, 1000
		for i, want := range want {
			res, _, st := g.openName(openArgs("user", "f", uint32(i+1), 0, nfs4.NoCreate))
			assert.Equal(t, want, st, "OPEN %d of mode %o", i+1, m)
			if st == nfs4.OK {
				assert.Equal(t, nfs4.OK, g.closeFile(fh, res.StateID))
			}
		}
		_, st = g.readFile(fh, opened.StateID)
		assert.Equal(t, want[0], st, "READ of mode %o", m)
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpRead, &nfs4.ReadArgs{StateID: opened.StateID}, new(nfs4.ReadRes)})
		assert.Equal(t, want[0], st, "READ of nothing")
		assert.Equal(t, want[1], g.writeFile(fh, opened.StateID, "content"), "WRITE of mode %o", m)
		g.becomeRoot()
		require.Equal(t, nfs4.OK, g.closeFile(fh, opened.StateID))
	}
}

// TestDenials checks that a right which is missing is NFS4ERR_ACCESS, and an
// act that is the owner's alone NFS4ERR_PERM (R8881-15.1.6.1-1,
// R8881-18.13.3-2).
//
// R8881-18.29.3-1, R8881-18.30.4-3.
func TestDenials(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	fhs := g.makeObjects()
	for _, name := range []string{"dir", "file"} {
		require.Equal(t, nfs4.OK, g.setAttrs(fhs[name], nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o700}))
	}
	g.cred.UID, g.cred.GID = 1000, 1000
	dir := putStep(fhs["dir"])
	for name, s := range map[string]step{
		"LOOKUP":  lookupStep("n"),
		"SECINFO": {nfs4.OpSecInfo, &nfs4.NameArgs{Name: []byte("n")}, new(nfs4.SecInfoRes)},
		"READDIR": {nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000}, new(dirListing)},
		"CREATE":  mkdirStep("n"),
		"OPEN":    {nfs4.OpOpen, openArgs("o", "n", nfs4.ShareBoth, 0, nfs4.Unchecked), new(nfs4.OpenRes)},
		"REMOVE":  {nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("n")}, new(nfs4.ChangeRes)},
	} {
		st, _ := g.sendSteps(dir, s)
		assert.Equal(t, nfs4.ErrAccess, st, name)
	}
	for name, a := range map[string]nfs4.Attrs{
		"mode":  {Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o777},
		"owner": {Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("1000")},
		"group": {Mask: nfs4.BitmapOf(nfs4.AttrOwnerGroup), OwnerGroup: []byte("1000")},
		"time":  {Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet), TimeModifySet: nfs4.SetTime{Client: true}},
		"both":  {Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwner), Owner: []byte("1000")},
	} {
		assert.Equal(t, nfs4.ErrPerm, g.setAttrs(fhs["file"], a), name) // without a bit in attrsset: R8881-18.30.3-2
	}
	assert.Equal(t, nfs4.ErrAccess, g.setAttrs(fhs["file"], nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}))
	_, own, st := g.openName(openArgs("o", "own", nfs4.ShareBoth, 0, nfs4.Guarded))
	require.Equal(t, nfs4.OK, st)
	same := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner, nfs4.AttrOwnerGroup), Owner: []byte("1000"), OwnerGroup: []byte("1000")}
	assert.Equal(t, nfs4.OK, g.setAttrs(own, same), "R8881-18.30.4-2: what is so already")
	got := g.getAttrs(fhs["file"], nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwner))
	assert.Equal(t, "0", string(got.Owner))
	assert.Equal(t, uint32(0o700), got.Mode)
}

// TestSizeByStateID checks which stateids may set the size, and the effect
// (R8881-18.30.3-1, R8881-18.30.4-1, R8881-18.30.4-4).
func TestSizeByStateID(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).connectClient().becomeRoot()
	fh := g.makeFile("f", "content")
	set := func(id nfs4.StateID, a nfs4.Attrs) nfs4.Status {
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: a}, new(nfs4.SetAttrRes)})
		return st
	}
	size := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 10_000}
	mode := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o600}
	reader, _, st := g.openName(openArgs("reader", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	writer, _, st := g.openName(openArgs("writer", "f", nfs4.ShareWrite, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.ErrOpenMode, set(reader.StateID, size))
	assert.Equal(t, nfs4.ErrBadStateID, set(nfs4.StateID{SeqID: 1, Other: [nfs4.OtherSize]byte{1}}, size))
	assert.Equal(t, nfs4.OK, set(reader.StateID, mode), "no other attribute needs it")
	changes := nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrTimeModify, nfs4.AttrSize)
	before := g.getAttrs(fh, changes)
	assert.Equal(t, nfs4.OK, set(writer.StateID, size))
	after := g.getAttrs(fh, changes)
	assert.Equal(t, size.Size, after.Size)
	assert.NotEqual(t, before.Change, after.Change)
	assert.NotEqual(t, before.TimeModify, after.TimeModify)
	var res nfs4.ReadRes
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpRead, &nfs4.ReadArgs{Offset: 7, Count: 20_000}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, make([]byte, 10_000-7), res.Data)
	require.Equal(t, nfs4.OK, g.closeFile(fh, writer.StateID))
	_, _, st = g.openName(openArgs("denies", "f", nfs4.ShareRead, nfs4.ShareWrite, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	for _, id := range []nfs4.StateID{nfs4.AnonymousStateID, nfs4.BypassStateID} {
		assert.Equal(t, nfs4.ErrLocked, set(id, size))
		assert.Equal(t, nfs4.OK, set(id, mode))
	}
}

// TestShortRead checks a READ for more than the reply may contain (R8881-18.22.3-2).
func TestShortRead(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot()
	g.connectWith("c", channel)
	st, _ := g.sendSteps(step{nfs4.OpReclaimComplete, &nfs4.ReclaimCompleteArgs{}, newStatusRes()})
	require.Equal(t, nfs4.OK, st)
	fh := g.makeFile("f", "content")
	require.Equal(t, nfs4.OK, g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: 20_000}))
	got := 0
	for eof := false; !eof; {
		var res nfs4.ReadRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpRead, &nfs4.ReadArgs{Offset: uint64(got), Count: 1 << 20}, &res})
		require.Equal(t, nfs4.OK, st)
		require.NotEmpty(t, res.Data)
		got += len(res.Data)
		eof = res.EOF
		assert.Equal(t, got == 20_000, eof)
		assert.Less(t, len(res.Data), int(channel.MaxResponseSize))
	}
	assert.Equal(t, 20_000, got)
}

// TestVerifierOrder checks that data which may be lost while a call runs are sent again:
// WRITE and COPY tell the verifier from before their data were written, and COMMIT the
// one from after the commit (R8881-18.32.3-2).
//
// R8881-18.3.3-2.
func TestVerifierOrder(t *testing.T) {
	fs := &fakeLosingFS{fakeWatchedFS: &fakeWatchedFS{FS: mem.New(mem.Options{Size: 1 << 20}), verifier: 1, most: 1 << 20}}
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)}).connectClient().becomeRoot()
	to, from := g.makeFile("f", ""), g.makeFile("g", "some data")
	fs.armed = true
	before := toVerifier(fs.verifier)
	var wrote nfs4.WriteRes
	st, _ := g.sendSteps(putStep(to), step{nfs4.OpWrite, &nfs4.WriteArgs{Data: []byte("data")}, &wrote})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, before, wrote.Verf, "WRITE")
	before = toVerifier(fs.verifier)
	var copied nfs4.CopyRes
	st, _ = g.sendSteps(putStep(from), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(to), step{nfs4.OpCopy, &nfs4.CopyArgs{Synchronous: true}, &copied})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, before, copied.Response.Verf, "COPY")
	before = toVerifier(fs.verifier)
	var committed nfs4.CommitRes
	st, _ = g.sendSteps(putStep(to), step{nfs4.OpCommit, &nfs4.CommitArgs{}, &committed})
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, toVerifier(fs.verifier), committed.Verf, "COMMIT")
	assert.NotEqual(t, before, committed.Verf)
}
