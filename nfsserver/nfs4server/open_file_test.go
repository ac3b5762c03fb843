package nfs4server

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A fakeCountingFS counts its open files, and the calls by handle.
type fakeCountingFS struct {
	vfs.FS
	opener        vfs.Opener
	reading       atomic.Int64
	writing       atomic.Int64
	reads, writes atomic.Int64
	opening       func() // called by OpenFile, if not nil
	full          bool   // no file can be resized
}

type fakeCountingFile struct {
	vfs.File
	fs *fakeCountingFS
	n  *atomic.Int64
}

func (f *fakeCountingFile) SetSize(ctx context.Context, size uint64) error {
	if f.fs.full {
		return syscall.EDQUOT
	}
	return f.File.SetSize(ctx, size)
}

func (f *fakeCountingFile) Close() {
	f.n.Add(-1)
	f.File.Close()
}

func newCountingFS(fs vfs.FS) *fakeCountingFS {
	return &fakeCountingFS{FS: fs, opener: fs.(vfs.Opener)}
}

func (fs *fakeCountingFS) countOpened(o vfs.Opened) vfs.Opened {
	if o.Read != nil {
		fs.reading.Add(1)
		o.Read = &fakeCountingFile{o.Read, fs, &fs.reading}
	}
	if o.Write != nil {
		fs.writing.Add(1)
		o.Write = &fakeCountingFile{o.Write, fs, &fs.writing}
	}
	return o
}

func (fs *fakeCountingFS) OpenFile(ctx context.Context, c *vfs.Cred, h vfs.Handle, access vfs.OpenAccess) (vfs.Opened, error) {
	if fs.opening != nil {
		fs.opening()
	}
	o, err := fs.opener.OpenFile(ctx, c, h, access)
	return fs.countOpened(o), err
}

func (fs *fakeCountingFS) CreateFile(ctx context.Context, c *vfs.Cred, dir vfs.Handle, name string, how vfs.CreateHow, access vfs.OpenAccess) (vfs.Made, vfs.Opened, error) {
	m, o, err := fs.opener.CreateFile(ctx, c, dir, name, how, access)
	return m, fs.countOpened(o), err
}

func (fs *fakeCountingFS) SetAttr(ctx context.Context, c *vfs.Cred, h vfs.Handle, set vfs.SetAttr, guard *vfs.Time) (vfs.WCC, error) {
	if fs.full && set.Size != nil {
		return vfs.WCC{}, syscall.EDQUOT
	}
	return fs.FS.SetAttr(ctx, c, h, set, guard)
}

func (fs *fakeCountingFS) AppendKey(b []byte, h vfs.Handle) ([]byte, error) {
	return fs.FS.(vfs.Identifier).AppendKey(b, h)
}

func (fs *fakeCountingFS) Read(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64) (int, bool, vfs.MaybeAttr, error) {
	fs.reads.Add(1)
	return fs.FS.Read(ctx, c, h, p, off)
}

func (fs *fakeCountingFS) Write(ctx context.Context, c *vfs.Cred, h vfs.Handle, p []byte, off uint64, how vfs.Stable) (int, vfs.Stable, vfs.WCC, error) {
	fs.writes.Add(1)
	return fs.FS.Write(ctx, c, h, p, off, how)
}

// openCounts returns how many files are open for reading and for writing.
func (fs *fakeCountingFS) openCounts() [2]int64 {
	return [2]int64{fs.reading.Load(), fs.writing.Load()}
}

// newFileServer returns a connected testServer with the calls' own callers, and its file
// system, which is in memory or, only for root, on the disk.
func newFileServer(t *testing.T, disk bool) (*testServer, *fakeCountingFS) {
	var inner vfs.FS = mem.New(mem.Options{Size: 1 << 30, Mode: 0o777})
	if disk {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o777))
		f, err := posix.Open(dir, posix.Options{StateDir: t.TempDir(), TableHandles: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		inner = f
	}
	fs := newCountingFS(inner)
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(exports.Options{Insecure: true, NoRootSquash: true})}).connectClient()
	t.Cleanup(g.s.Close)
	return g, fs
}

// onEachFS runs a test on a file system in memory and on a host file system.
func onEachFS(t *testing.T, run func(t *testing.T, g *testServer, fs *fakeCountingFS)) {
	t.Run("memory", func(t *testing.T) {
		g, fs := newFileServer(t, false)
		run(t, g, fs)
	})
	t.Run("disk", func(t *testing.T) {
		g, fs := newFileServer(t, true)
		if uid := os.Geteuid(); uid != 0 {
			g.cred.UID, g.cred.GID = uint32(uid), uint32(os.Getegid())
		}
		run(t, g, fs)
	})
}

func setSizeStep(id nfs4.StateID, size uint64) step {
	return step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{StateID: id, Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: size}}, new(nfs4.SetAttrRes)}
}

var commitAll = step{nfs4.OpCommit, &nfs4.CommitArgs{}, new(nfs4.CommitRes)}

// R8881-18.25.4: a file that is removed while it is open stays for the opens
// that there are.
func TestOpenRemovedFile(t *testing.T) {
	onEachFS(t, func(t *testing.T, g *testServer, fs *fakeCountingFS) {
		res, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		other := g.newOtherClient()
		for range 2 {
			require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "before"))
			st, _ = other.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("f")}, new(nfs4.ChangeRes)})
			if st == nfs4.ErrNoEnt {
				break
			}
			require.Equal(t, nfs4.OK, st)
			data, st := g.readFile(fh, res.StateID)
			require.Equal(t, nfs4.OK, st)
			assert.Equal(t, "before", data)
		}
		require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "after"))
		st, _ = g.sendSteps(putStep(fh), commitAll)
		require.Equal(t, nfs4.OK, st)
		st, _ = g.sendSteps(putStep(fh), setSizeStep(res.StateID, 3))
		require.Equal(t, nfs4.OK, st)
		data, st := g.readFile(fh, res.StateID)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, "aft", data)
		a := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSize, nfs4.AttrNumLinks, nfs4.AttrChange))
		assert.EqualValues(t, 3, a.Size)
		assert.Zero(t, a.NumLinks)
		assert.Zero(t, fs.reads.Load()+fs.writes.Load(), "calls by the handle")
		require.Equal(t, nfs4.OK, g.closeFile(fh, res.StateID))
		assert.Equal(t, [2]int64{}, fs.openCounts())
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, new(nfs4.GetAttrRes)})
		assert.Equal(t, nfs4.ErrStale, st)
	})
}

// POSIX: the rights to an open file are determined when it is opened. Only the opener has them
// (RFC 8881, Section 18.16.4: a server may check them again).
func TestOpenRightsLast(t *testing.T) {
	onEachFS(t, func(t *testing.T, g *testServer, fs *fakeCountingFS) {
		a := openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Guarded)
		a.Attrs.Mode = 0o444
		res, fh, st := g.openName(a)
		require.Equal(t, nfs4.OK, st, "the maker of a file may open it for anything")
		require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "data"))
		st, _ = g.sendSteps(putStep(fh), setSizeStep(nfs4.AnonymousStateID, 2))
		want := nfs4.OK // as the owner
		if strings.HasSuffix(t.Name(), "disk") && os.Geteuid() != 0 {
			want = nfs4.ErrAccess
		}
		assert.Equal(t, want, st)
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode)}}, new(nfs4.SetAttrRes)})
		require.Equal(t, nfs4.OK, st)
		_, _, st = g.openName(openArgs("p", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.ErrAccess, st, "a further OPEN is checked")
		require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "DATA"))
		st, _ = g.sendSteps(putStep(fh), setSizeStep(res.StateID, 3), commitAll)
		require.Equal(t, nfs4.OK, st)
		data, st := g.readFile(fh, res.StateID)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, "DAT", data)
		assert.Zero(t, fs.reads.Load()+fs.writes.Load(), "calls by the handle")
		if os.Geteuid() != 0 {
			return // all callers are alike
		}
		g.cred.UID++
		_, st = g.readFile(fh, res.StateID)
		assert.Equal(t, nfs4.ErrAccess, st, "another caller is checked")
		assert.Equal(t, nfs4.ErrAccess, g.writeFile(fh, res.StateID, "x"), "another caller is checked")
		st, _ = g.sendSteps(putStep(fh), setSizeStep(res.StateID, 1))
		assert.Equal(t, nfs4.ErrAccess, st, "another caller is checked")
		st, _ = g.sendSteps(putStep(fh), commitAll)
		assert.Equal(t, nfs4.ErrAccess, st, "another caller is checked")
	})
}

// R8881-9.9, R8881-18.18.3: files follow the opens' access, upward and downward, and are closed
// with the last.
func TestOpenUpgradeFiles(t *testing.T) {
	onEachFS(t, func(t *testing.T, g *testServer, fs *fakeCountingFS) {
		fh := g.makeFile("f", "data")
		require.Equal(t, [2]int64{}, fs.openCounts())
		open := func(owner string, access uint32) nfs4.StateID {
			res, _, st := g.openName(openArgs(owner, "f", access, 0, nfs4.NoCreate))
			require.Equal(t, nfs4.OK, st)
			return res.StateID
		}
		id := open("o", nfs4.ShareRead)
		assert.Equal(t, [2]int64{1, 0}, fs.openCounts())
		assert.Equal(t, nfs4.ErrOpenMode, g.writeFile(fh, id, "x"))
		again := open("o", nfs4.ShareRead)
		assert.Equal(t, id.Other, again.Other)
		assert.Equal(t, [2]int64{1, 0}, fs.openCounts(), "the same stateid")
		id = open("o", nfs4.ShareBoth)
		assert.Equal(t, [2]int64{1, 1}, fs.openCounts())
		require.Equal(t, nfs4.OK, g.writeFile(fh, id, "DATA"))
		other := open("p", nfs4.ShareWrite)
		assert.Equal(t, [2]int64{1, 2}, fs.openCounts())
		var down nfs4.StateIDRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpOpenDowngrade, &nfs4.OpenDowngradeArgs{StateID: id, ShareAccess: nfs4.ShareRead}, &down})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, [2]int64{1, 1}, fs.openCounts())
		assert.Equal(t, nfs4.ErrOpenMode, g.writeFile(fh, down.StateID, "x"))
		data, st := g.readFile(fh, down.StateID)
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, "DATA", data)
		require.Equal(t, nfs4.OK, g.closeFile(fh, down.StateID))
		assert.Equal(t, [2]int64{0, 1}, fs.openCounts())
		require.Equal(t, nfs4.OK, g.writeFile(fh, other, "!"))
		require.Equal(t, nfs4.OK, g.closeFile(fh, other))
		assert.Equal(t, [2]int64{}, fs.openCounts())
		assert.Zero(t, fs.reads.Load()+fs.writes.Load(), "calls by the handle")
	})
}

// Files that no stateid needs are closed: those for an OPEN that fails, and for a client that
// ends.
func TestOpenFilesEnd(t *testing.T) {
	g, fs := newFileServer(t, false)
	fh := g.makeFile("f", "data")
	deny, _, st := g.openName(openArgs("o", "f", nfs4.ShareRead, nfs4.ShareWrite, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	other := g.newOtherClient()
	_, _, st = other.openName(openArgs("o", "f", nfs4.ShareWrite, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrShareDenied, st)
	assert.Equal(t, [2]int64{1, 0}, fs.openCounts())
	require.Equal(t, nfs4.OK, g.closeFile(fh, deny.StateID))

	for i, how := range []nfs4.CreateMode{nfs4.Unchecked, nfs4.Guarded, nfs4.Exclusive, nfs4.Exclusive1} {
		_, _, st = g.openName(openArgs("o", string(rune('a'+i)), nfs4.ShareBoth, 0, how))
		require.Equal(t, nfs4.OK, st)
	}
	_, _, st = g.openName(openArgs("p", "c", nfs4.ShareRead, 0, nfs4.Exclusive)) // a retry
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, [2]int64{5, 4}, fs.openCounts())
	_, _, st = g.openName(openArgs("p", "a", nfs4.ShareRead, 0, nfs4.Guarded))
	assert.Equal(t, nfs4.ErrExist, st)
	a := openArgs("p", "a", nfs4.ShareBoth, nfs4.ShareRead, nfs4.Unchecked)
	_, _, st = g.openName(a)
	assert.Equal(t, nfs4.ErrShareDenied, st)
	assert.Equal(t, [2]int64{5, 4}, fs.openCounts())
	var id nfs4.ExchangeIDRes
	again := *g
	st, _ = again.sendRaw(step{nfs4.OpExchangeID, &nfs4.ExchangeIDArgs{Owner: []byte("client"), Verifier: nfs4.Verifier{9}}, &id})
	require.Equal(t, nfs4.OK, st)
	ch := nfs4.ChannelAttrs{MaxRequestSize: 1 << 20, MaxResponseSize: 1 << 20, MaxResponseSizeCached: 7584, MaxOperations: 16, MaxRequests: 8}
	st, _ = again.sendRaw(step{nfs4.OpCreateSession, &nfs4.CreateSessionArgs{ClientID: id.ClientID, Sequence: id.SequenceID, Fore: ch, Back: ch}, new(nfs4.CreateSessionRes)})
	require.Equal(t, nfs4.OK, st)
	assert.Eventually(t, func() bool { return fs.openCounts() == [2]int64{} }, time.Minute, time.Millisecond, "the client has restarted")

	_, _, st = other.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	require.Equal(t, nfs4.OK, st)
	other.s.Close()
	assert.Equal(t, [2]int64{}, fs.openCounts(), "the server has ended")
}

// R8881-8.5-1, R8881-18.46.3: an export that SIGHUP takes away takes along the
// files open in the export. Its filehandles are NFS4ERR_STALE, and its stateids
// NFS4ERR_ADMIN_REVOKED until the client has freed them.
func TestOpenOfRemovedExport(t *testing.T) {
	gone, stays := newCountingFS(mem.New(mem.Options{Mode: 0o777})), newCountingFS(mem.New(mem.Options{Mode: 0o777}))
	released := make(chan struct{}, 1)
	list := []exportset.Export{{Path: "/x", FS: gone, Released: func() { assert.Equal(t, [2]int64{}, gone.openCounts()); released <- struct{}{} }}, {Path: "/y", FS: stays}}
	g := newTestServer(t, list...).connectClient()
	open := func(dir string) (nfs4.StateID, nfs4.FH) {
		var res nfs4.OpenRes
		var fh nfs4.HandleRes
		st, _ := g.sendSteps(putRootStep(), lookupStep(dir), step{nfs4.OpOpen, openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked), &res}, step{nfs4.OpGetFH, &void, &fh})
		require.Equal(t, nfs4.OK, st)
		return res.StateID, append(nfs4.FH(nil), fh.Object...)
	}
	id, fh := open("x")
	keeps, kept := open("y")
	require.NoError(t, g.s.exports.SetExports(list[1:]))
	<-released
	assert.True(t, g.isStateRevoked())
	_, st := g.readFile(fh, id)
	assert.Equal(t, nfs4.ErrStale, st)
	_, st = g.readFile(kept, id)
	assert.Equal(t, nfs4.ErrAdminRevoked, st)
	assert.Equal(t, nfs4.ErrAdminRevoked, g.writeFile(kept, id, "x"))
	assert.Equal(t, nfs4.ErrAdminRevoked, g.closeFile(kept, id))
	st, _ = g.sendSteps(step{nfs4.OpFreeStateID, &nfs4.StateIDArgs{StateID: id}, newStatusRes()})
	require.Equal(t, nfs4.OK, st)
	assert.False(t, g.isStateRevoked())
	require.Equal(t, nfs4.OK, g.writeFile(kept, keeps, "goes on"))
	require.Equal(t, nfs4.OK, g.closeFile(kept, keeps))
	assert.Equal(t, [2]int64{}, stays.openCounts())

	// The same export comes back: its files can be opened again.
	require.NoError(t, g.s.exports.SetExports(list))
	id, fh = open("x")
	require.Equal(t, nfs4.OK, g.writeFile(fh, id, "data"))
	g.s.Close()
}

// isStateRevoked sends a SEQUENCE, and reports whether its reply has SEQ4_STATUS_ADMIN_STATE_REVOKED.
func (g *testServer) isStateRevoked() bool {
	g.t.Helper()
	var seq nfs4.SequenceRes
	g.seq++
	st, _ := g.sendRaw(step{nfs4.OpSequence, &nfs4.SequenceArgs{Session: g.session, Sequence: g.seq}, &seq})
	require.Equal(g.t, nfs4.OK, st)
	return seq.Flags&nfs4.SeqAdminStateRevoked != 0
}

// TestCloseInRemovedExport checks that a client which closes a file, or returns a delegation, in a
// removed export frees the revoked stateid, although the filehandle is stale. Linux sends no
// FREE_STATEID then.
func TestCloseInRemovedExport(t *testing.T) {
	fs := mem.New(mem.Options{Mode: 0o777})
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs}).connectClient()
	var ids []nfs4.StateID
	var fh nfs4.FH
	for _, name := range []string{"a", "b", "c"} {
		res, h, st := g.openName(openArgs(name, name, nfs4.ShareBoth, 0, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		ids, fh = append(ids, res.StateID), append(nfs4.FH(nil), h...)
	}
	require.NoError(t, g.s.exports.SetExports(nil))
	getattr := step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: nfs4.BitmapOf(nfs4.AttrSize)}, new(nfs4.GetAttrRes)}
	assert.Equal(t, nfs4.ErrStale, g.closeFile(fh, ids[0]))
	st, _ := g.sendSteps(putStep(fh), getattr, step{nfs4.OpClose, &nfs4.CloseArgs{StateID: ids[1]}, new(nfs4.StateIDRes)})
	assert.Equal(t, nfs4.ErrStale, st)
	assert.True(t, g.isStateRevoked(), "one stateid is left")
	st, _ = g.sendSteps(putStep(fh), getattr, step{nfs4.OpDelegReturn, &nfs4.StateIDArgs{StateID: ids[2]}, newStatusRes()})
	assert.Equal(t, nfs4.ErrStale, st)
	assert.False(t, g.isStateRevoked())
	g.s.Close()
}

// An export may be removed while a call opens a file in it.
func TestOpenWhileExportGoes(t *testing.T) {
	fs := newCountingFS(mem.New(mem.Options{Mode: 0o777}))
	released := make(chan struct{})
	g := newTestServer(t, exportset.Export{Path: "/x", FS: fs, Released: func() { assert.Equal(t, [2]int64{}, fs.openCounts()); close(released) }}).connectClient()
	g.makeFile("f", "data")
	fs.opening = func() {
		require.NoError(t, g.s.exports.SetExports(nil))
	}
	_, _, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.ErrStale, st)
	<-released
	g.s.state.Revoke(func(any) bool {
		t.Error("an open is left")
		return false
	})
}

// R8881-5.8.1.4, R8881-5.8.2.35: the change attribute changes with each WRITE, and the creation
// time stays.
func TestChangeOfFile(t *testing.T) {
	onEachFS(t, func(t *testing.T, g *testServer, _ *fakeCountingFS) {
		res, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Unchecked))
		require.Equal(t, nfs4.OK, st)
		request := nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrTimeCreate)
		first := g.getAttrs(fh, request)
		require.True(t, first.Mask.Has(nfs4.AttrTimeCreate))
		assert.NotZero(t, first.TimeCreate.Sec)
		seen := map[uint64]bool{first.Change: true}
		for range 20 {
			require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "x"))
			a := g.getAttrs(fh, request)
			assert.False(t, seen[a.Change])
			seen[a.Change] = true
			assert.Equal(t, first.TimeCreate, a.TimeCreate)
		}
	})
}

// TestOpenThatFails lets OPENs fail when they empty the file: earlier opens are
// unchanged, and nothing else is open.
func TestOpenThatFails(t *testing.T) {
	onEachFS(t, func(t *testing.T, g *testServer, fs *fakeCountingFS) {
		g.makeFile("f", "data")
		first, fh, st := g.openName(openArgs("o", "f", nfs4.ShareRead, 0, nfs4.NoCreate))
		require.Equal(t, nfs4.OK, st)
		fs.full = true
		for _, access := range []uint32{nfs4.ShareRead, nfs4.ShareWrite, nfs4.ShareBoth} {
			for _, owner := range []string{"o", "new"} {
				a := openArgs(owner, "f", access, nfs4.ShareWrite, nfs4.Unchecked)
				a.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}
				_, _, st = g.openName(a)
				require.Equal(t, nfs4.ErrDQuot, st)
				assert.Equal(t, [2]int64{1, 0}, fs.openCounts())
				assert.Equal(t, 1, g.s.Counts().Opens)
				data, st := g.readFile(fh, first.StateID)
				assert.Equal(t, nfs4.OK, st, "the stateid is the latest still")
				assert.Equal(t, "data", data)
				assert.Equal(t, nfs4.ErrOpenMode, g.writeFile(fh, first.StateID, "x"))
			}
		}
		other, _, st := g.newOtherClient().openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.NoCreate))
		assert.Equal(t, nfs4.OK, st, "nothing is denied")
		assert.EqualValues(t, 1, other.StateID.SeqID)
		fs.full = false
		a := openArgs("o", "f", nfs4.ShareWrite, 0, nfs4.Unchecked)
		a.Attrs = nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize)}
		second, _, st := g.openName(a)
		require.Equal(t, nfs4.OK, st)
		assert.EqualValues(t, 2, second.StateID.SeqID)
		require.Equal(t, nfs4.OK, g.writeFile(fh, second.StateID, "new"))
		data, _ := g.readFile(fh, second.StateID)
		assert.Equal(t, "new", data)
	})
}
