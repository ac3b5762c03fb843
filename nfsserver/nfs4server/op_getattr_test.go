package nfs4server

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/mem"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// free lets every caller act as itself.
var free = exports.Options{Insecure: true, NoRootSquash: true}

// getAttrs returns an object's attributes.
func (g *testServer) getAttrs(fh nfs4.FH, request nfs4.Bitmap) nfs4.Attrs {
	g.t.Helper()
	var res nfs4.GetAttrRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: request}, &res})
	require.Equal(g.t, nfs4.OK, st)
	res.Attrs.Owner = append([]byte(nil), res.Attrs.Owner...)
	res.Attrs.OwnerGroup = append([]byte(nil), res.Attrs.OwnerGroup...)
	res.Attrs.FileHandle = append(nfs4.FH(nil), res.Attrs.FileHandle...)
	return res.Attrs
}

// setAttrs sets an object's attributes.
func (g *testServer) setAttrs(fh nfs4.FH, a nfs4.Attrs) nfs4.Status {
	g.t.Helper()
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, &nfs4.SetAttrArgs{Attrs: a}, new(nfs4.SetAttrRes)})
	return st
}

// lookupPath returns a path's handle.
func (g *testServer) lookupPath(path ...string) nfs4.FH {
	g.t.Helper()
	steps := []step{putRootStep()}
	for _, p := range path {
		steps = append(steps, lookupStep(p))
	}
	var fh nfs4.HandleRes
	st, _ := g.sendSteps(append(steps, step{nfs4.OpGetFH, &void, &fh})...)
	require.Equal(g.t, nfs4.OK, st, path)
	return append(nfs4.FH(nil), fh.Object...)
}

// newDiskServer returns a testServer whose export is a host directory.
func newDiskServer(t *testing.T) (g *testServer, dir string) { return newDiskServerAt(t, "") }

// newDiskServerAt is newDiskServer for a directory in another, or in the usual one for "".
func newDiskServerAt(t *testing.T, base string) (g *testServer, dir string) {
	dir, err := os.MkdirTemp(base, "nfs4server-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	fs, err := posix.Open(dir, posix.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fs.Close()) })
	g = newTestServer(t, exportset.Export{Path: "/x", FS: fs, Clients: exports.Everyone(free)})
	g.cred.UID, g.cred.GID = uint32(os.Geteuid()), uint32(os.Getegid())
	return g.connectClient(), dir
}

// TestChangeAttrType checks that change_attr_type claims no more than the file system promises, in
// each export: a derivation from time_metadata, or nothing. R7862-12.2.3-2, R7862-12.2.3-3.
func TestChangeAttrType(t *testing.T) {
	ordered := mem.New(mem.Options{Size: 1 << 20})
	g := newTestServer(t,
		exportset.Export{Path: "/x", FS: ordered, Clients: exports.Everyone(free)},
		exportset.Export{Path: "/y", FS: struct{ vfs.FS }{mem.New(mem.Options{Size: 1 << 20})}, Clients: exports.Everyone(free)}).connectClient()
	disk, _ := newDiskServer(t)
	for _, export := range []struct {
		g    *testServer
		name string
		want uint32
	}{{g, "x", nfs4.ChangeTypeTimeMetadata}, {g, "y", nfs4.ChangeTypeUndefined}, {disk, "x", nfs4.ChangeTypeTimeMetadata}} {
		g, dir := export.g, export.g.lookupPath(export.name)
		before := g.getAttrs(dir, nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrChangeAttrType))
		assert.Equal(t, export.want, before.ChangeAttrType, export.name)
		file := g.makeFileIn(export.name, "f", "content")
		after := g.getAttrs(dir, nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrChangeAttrType))
		assert.Equal(t, export.want, after.ChangeAttrType, "it does not change")
		assert.Greater(t, after.Change, before.Change)
		assert.Equal(t, export.want, g.getAttrs(file, nfs4.BitmapOf(nfs4.AttrChangeAttrType)).ChangeAttrType, "all objects have the same")
	}
	root := g.lookupPath()
	a := g.getAttrs(root, nfs4.BitmapOf(nfs4.AttrChange, nfs4.AttrChangeAttrType, nfs4.AttrTimeMetadata))
	assert.Equal(t, nfs4.ChangeTypeTimeMetadata, a.ChangeAttrType)
	assert.EqualValues(t, a.TimeMetadata.Sec*1e9+int64(a.TimeMetadata.Nsec), a.Change, "the pseudo file system")
}

// TestHostAttributes compares a server's attributes for each object type with the host's:
// R8881-5.1-1, R8881-5.2-2, R8881-5.8.1.2-1 and those next to the comparisons.
func TestHostAttributes(t *testing.T) {
	g, dir := newDiskServer(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("file"), []byte("content"), 0o640))
	require.NoError(t, os.Truncate(path("file"), 1<<20))
	require.NoError(t, os.Link(path("file"), path("second")))
	require.NoError(t, os.Mkdir(path("dir"), 0o755))
	require.NoError(t, os.Chmod(path("dir"), 0o1755|os.ModeSticky))
	require.NoError(t, os.Symlink("file", path("link")))
	require.NoError(t, syscall.Mkfifo(path("fifo"), 0o600))
	types := map[string]nfs4.FileType{
		"file": nfs4.TypeReg, "dir": nfs4.TypeDir, "link": nfs4.TypeLnk, "fifo": nfs4.TypeFIFO,
	}
	const block, char, sock = "block", "char", "sock"
	if os.Geteuid() == 0 {
		for name, mode := range map[string]uint32{block: syscall.S_IFBLK, char: syscall.S_IFCHR, sock: syscall.S_IFSOCK} {
			require.NoError(t, syscall.Mknod(path(name), mode|0o600, 5<<8|7))
		}
		types[block], types[char], types[sock] = nfs4.TypeBlk, nfs4.TypeChr, nfs4.TypeSock
	}
	for name, typ := range types {
		fh := g.lookupPath("x", name)
		var want syscall.Stat_t
		require.NoError(t, syscall.Lstat(path(name), &want))
		a := g.getAttrs(fh, supportedMinor2.Without(writeOnlyAttrs))
		missing := supportedMinor2.Without(writeOnlyAttrs).Without(a.Mask)
		missing.Clear(nfs4.AttrTimeCreate)
		assert.True(t, missing.Empty(), "%s lacks %v: R8881-5.1-1", name, missing)
		assert.Equal(t, typ, a.Type, name)
		assert.Equal(t, nfs4.FHPersistent, a.FHExpireType, "R8881-5.8.1.3-1, R8881-4.2.3-1")
		assert.EqualValues(t, want.Size, a.Size)
		assert.Equal(t, want.Mode&0o7777, a.Mode, "R8881-6.2.4-1: %s", name)
		assert.EqualValues(t, want.Nlink, a.NumLinks, "R8881-5.8.2.25-1")
		assert.Equal(t, want.Ino, a.FileID, "R8881-5.8.2.7-1")
		assert.Equal(t, want.Ino, a.MountedOnFileID, "R8881-5.8.2.23-1")
		assert.EqualValues(t, want.Blocks*512, a.SpaceUsed, "R8881-5.8.2.35-1")
		assert.Equal(t, strconv.Itoa(int(want.Uid)), string(a.Owner), "R8881-5.8.2.26-1")
		assert.Equal(t, strconv.Itoa(int(want.Gid)), string(a.OwnerGroup), "R8881-5.8.2.27-1")
		assert.Equal(t, nfs4.Time{Sec: want.Ctim.Sec, Nsec: uint32(want.Ctim.Nsec)}, a.TimeMetadata, "R8881-5.8.2.42-1")
		assert.Equal(t, nfs4.Time{Sec: want.Mtim.Sec, Nsec: uint32(want.Mtim.Nsec)}, a.TimeModify, "R8881-5.8.2.43-1")
		assert.Equal(t, nfs4.Time{Sec: want.Atim.Sec, Nsec: uint32(want.Atim.Nsec)}, a.TimeAccess, "R8881-5.8.2.37-1")
		if a.Mask.Has(nfs4.AttrTimeCreate) {
			assert.LessOrEqual(t, a.TimeCreate.Sec, want.Ctim.Sec, "R8881-5.8.2.40-1")
		}
		rdev := nfs4.SpecData{}
		if name == block || name == char {
			rdev = nfs4.SpecData{Major: 5, Minor: 7}
		}
		assert.Equal(t, rdev, a.RawDev, "R8881-5.8.2.31-1: %s", name)
		assert.Equal(t, fh, a.FileHandle, "R8881-5.8.1.13-1")
		var fs syscall.Statfs_t
		require.NoError(t, syscall.Statfs(dir, &fs))
		assert.Equal(t, fs.Files, a.FilesTotal, "R8881-5.8.2.10-1")
		assert.Equal(t, fs.Blocks*uint64(fs.Frsize), a.SpaceTotal, "R8881-5.8.2.34-1")
		near := func(want, got uint64, what string) { // other processes use the file system too
			t.Helper()
			assert.InDelta(t, want, got, float64(want)/10+100, what)
		}
		near(fs.Ffree, a.FilesAvail, "R8881-5.8.2.8-1")
		near(fs.Ffree, a.FilesFree, "R8881-5.8.2.9-1")
		near(fs.Bavail*uint64(fs.Frsize), a.SpaceAvail, "R8881-5.8.2.32-1")
		near(fs.Bfree*uint64(fs.Frsize), a.SpaceFree, "R8881-5.8.2.33-1")
	}
	assert.Equal(t, g.lookupPath("x", "file"), g.lookupPath("x", "second"), "R8881-4.2.1-2: one handle through two links")
}

// TestServerAttributes checks the attributes that are the same for all objects,
// and that the server acts by their values.
func TestServerAttributes(t *testing.T) {
	g := newTestServer(t, exportset.Export{Path: "/x", FS: mem.New(mem.Options{Size: 1 << 30}), Clients: exports.Everyone(free)}).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	for _, fh := range []nfs4.FH{fh, g.lookupPath("x"), g.lookupPath()} {
		a := g.getAttrs(fh, supportedMinor2.Without(writeOnlyAttrs))
		assert.True(t, a.LinkSupport, "R8881-5.8.1.6-1")
		assert.True(t, a.SymlinkSupport, "R8881-5.8.1.7-1")
		assert.False(t, a.NamedAttr, "R8881-5.8.1.8-1")
		assert.False(t, a.UniqueHandles, "R8881-5.8.1.10-1: an object may have a handle of each export that it is in")
		assert.EqualValues(t, 40, a.LeaseTime, "R8881-5.8.1.11-1")
		assert.Equal(t, nfs4.OK, a.RdattrError, "R8881-5.8.1.12-1")
		assert.True(t, a.CanSetTime, "R8881-5.8.2.2-1")
		assert.False(t, a.CaseInsensitive, "R8881-5.8.2.3-1")
		assert.True(t, a.CasePreserving, "R8881-5.8.2.4-1")
		assert.True(t, a.ChownRestricted, "R8881-5.8.2.6-1")
		assert.Equal(t, nfs4.CharsetContainsNonUTF8, a.FSCharsetCap, "R8881-5.8.2.11-1")
		assert.True(t, a.Homogeneous, "R8881-5.8.2.16-1")
		assert.EqualValues(t, exportset.MaxFileSize, a.MaxFileSize, "R8881-5.8.2.17-1")
		assert.EqualValues(t, 255, a.MaxName, "R8881-5.8.2.19-1")
		assert.EqualValues(t, g.s.exports.Payload(), a.MaxRead, "R8881-5.8.2.20-1")
		assert.EqualValues(t, g.s.exports.Payload(), a.MaxWrite, "R8881-5.8.2.21-1")
		assert.True(t, a.NoTrunc, "R8881-5.8.2.24-1")
		assert.NotZero(t, a.MaxLink, "R8881-5.8.2.18-1")
		assert.Equal(t, nfs4.Time{Nsec: 1}, a.TimeDelta, "R8881-5.8.2.41-1")
	}
	x := []step{putRootStep(), lookupStep("x")}
	for _, name := range []string{"f", "F"} {
		_, _, st := g.openName(openArgs("o", name, 1, 0, nfs4.Unchecked))
		assert.Equal(t, nfs4.OK, st)
	}
	assert.ElementsMatch(t, []string{"f", "F"}, g.listNames("x"), "R8881-5.8.2.3-1, R8881-5.8.2.4-1")
	for n, want := range map[int]nfs4.Status{255: nfs4.OK, 256: nfs4.ErrNameTooLong} {
		st, _ := g.sendSteps(append(x[:2:2], mkdirStep(strings.Repeat("n", n)))...)
		assert.Equal(t, want, st, "R8881-5.8.2.19-1, R8881-5.8.2.24-1")
	}
	// R8881-5.8.2.20-1, R8881-5.8.2.21-1: one WRITE and one READ with the maximum length.
	_, big, st := g.openName(openArgs("o", "big", nfs4.ShareBoth, 0, nfs4.Unchecked))
	require.Equal(t, nfs4.OK, st)
	a := g.getAttrs(big, nfs4.BitmapOf(nfs4.AttrMaxWrite, nfs4.AttrMaxRead))
	var wrote nfs4.WriteRes
	var read nfs4.ReadRes
	g.connectWith("of large messages", nfs4.ChannelAttrs{MaxRequestSize: 2 << 20, MaxResponseSize: 2 << 20, MaxOperations: 8, MaxRequests: 1})
	st, _ = g.sendSteps(putStep(big), step{nfs4.OpWrite, &nfs4.WriteArgs{Data: make([]byte, a.MaxWrite)}, &wrote})
	assert.Equal(t, nfs4.OK, st)
	assert.EqualValues(t, a.MaxWrite, wrote.Count)
	st, _ = g.sendSteps(putStep(big), step{nfs4.OpRead, &nfs4.ReadArgs{Count: uint32(a.MaxRead)}, &read})
	assert.Equal(t, nfs4.OK, st)
	assert.Len(t, read.Data, int(a.MaxRead))
}

// TestSupportedAttributes checks for each number, including one that is no attribute, that
// supported_attrs names the attributes that GETATTR returns and SETATTR accepts
// (R8881-5.8.1.1-1, R8881-5-1). Attributes for Windows, archives, quotas, pNFS, retention and
// notifications are not supported, nor is acl if the file system has no lists: see unsupported.
//
// R8881-11.2-1, R8881-13.1-2.
func TestSupportedAttributes(t *testing.T) {
	for minor := uint32(1); minor <= 2; minor++ {
		g := newTestServer(t, newMemoryExport("/x", free))
		g.minor = minor
		g.becomeRoot().connectClient()
		g.makeFile("f", "content")
		fh := g.lookupPath("x", "f")
		have := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSupportedAttrs)).SupportedAttrs
		for _, id := range unsupported {
			assert.False(t, have.Has(id), id)
		}
		for id := range nfs4.AttrID(96) {
			one := nfs4.BitmapOf(id)
			get, set := nfs4.OK, nfs4.OK
			switch {
			case writeOnlyAttrs.Has(id) && have.Has(id):
				get = nfs4.ErrInval // R8881-5.5-2
			case writeOnlyAttrs.Has(id): // in a later minor version
				continue
			case !have.Has(id):
				set = nfs4.ErrAttrNotSupp
			}
			if have.Has(id) && !settableAttrs.Has(id) {
				set = nfs4.ErrInval // R8881-5.5-1
			}
			var res nfs4.GetAttrRes
			st, _ := g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: one}, &res})
			assert.Equal(t, get, st, "GETATTR of %s", id)
			assert.Equal(t, get == nfs4.OK && have.Has(id), res.Attrs.Mask.Has(id), id)
			st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpReadDir, &nfs4.ReadDirArgs{MaxCount: 1000, Request: one}, new(dirListing)})
			assert.Equal(t, get, st, "READDIR with %s", id)
			a := nfs4.Attrs{Mask: one, Type: nfs4.TypeReg, Owner: []byte("0"), OwnerGroup: []byte("0")}
			for _, op := range []nfs4.Op{nfs4.OpVerify, nfs4.OpNVerify} {
				st, _ = g.sendSteps(putStep(fh), step{op, &nfs4.VerifyArgs{Attrs: a}, newStatusRes()})
				switch {
				case writeOnlyAttrs.Has(id), id == nfs4.AttrRdattrError:
					assert.Equal(t, nfs4.ErrInval, st, "%s of %s", op, id)
				case !have.Has(id):
					assert.Equal(t, nfs4.ErrAttrNotSupp, st, "%s of %s", op, id)
				default:
					assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrSame, nfs4.ErrNotSame}, st, "%s of %s", op, id)
				}
			}
			assert.Equal(t, set, g.setAttrs(fh, a), "SETATTR of %s", id)
			create := openArgs("o", "new", nfs4.ShareBoth, 0, nfs4.Unchecked)
			create.Attrs = a
			if id == nfs4.AttrModeUmask {
				set = nfs4.OK // only for new objects
			}
			if _, _, st := g.openName(create); set != nfs4.OK {
				assert.Equal(t, set, st, "OPEN with %s", id)
			}
			st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d"), Attrs: a}, new(nfs4.CreateRes)})
			if set != nfs4.OK {
				assert.Equal(t, set, st, "CREATE with %s", id)
			}
			for _, name := range []string{"new", "d"} {
				g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte(name)}, new(nfs4.ChangeRes)})
			}
		}
		assert.Equal(t, []string{"f"}, g.listNames("x"))
	}
}

// unsupported are attributes that the server leaves out: R8881-5.8.2.1-1,
// R8881-5.8.2.5-1, R8881-5.8.2.13-1, R8881-5.8.2.14-1, R8881-5.8.2.15-1,
// R8881-5.8.2.22-1, R8881-5.8.2.28-1, R8881-5.8.2.29-1, R8881-5.8.2.30-1,
// R8881-5.8.2.36-1, R8881-5.8.2.39-1, R8881-5.11.1-1, R8881-5.11.2-1,
// R8881-5.12.1-1, R8881-5.12.4-1, R8881-5.12.5-1, R8881-5.13-1, R8881-5.13-2,
// R8881-6.2.1-3, R8881-6.2.1.2-1, R8881-6.2.1.2-3.
var unsupported = []nfs4.AttrID{
	nfs4.AttrArchive, nfs4.AttrChangePolicy, nfs4.AttrFSLocationsInfo, nfs4.AttrFSStatus, nfs4.AttrHidden,
	nfs4.AttrMIMEType, nfs4.AttrQuotaAvailHard, nfs4.AttrQuotaAvailSoft, nfs4.AttrQuotaUsed,
	nfs4.AttrSystem, nfs4.AttrTimeBackup, nfs4.AttrDirNotifDelay, nfs4.AttrDirentNotifDelay,
	nfs4.AttrFSLayoutTypes, nfs4.AttrLayoutHint, nfs4.AttrLayoutTypes, nfs4.AttrLayoutBlkSize, nfs4.AttrLayoutAlignment,
	nfs4.AttrMDSThreshold, nfs4.AttrRetentionGet, nfs4.AttrRetentionSet, nfs4.AttrRetentevtGet, nfs4.AttrRetentevtSet,
	nfs4.AttrRetentionHold, nfs4.AttrACL, nfs4.AttrDACL, nfs4.AttrSACL,
}

// wideBitmap is a set with eight words, with bits beyond all attributes (R8881-3.3.7-2).
type wideBitmap struct{ front, back []byte }

func (w wideBitmap) AppendTo(b []byte) []byte {
	b = xdr.AppendUint32(append(b, w.front...), 8)
	b = xdr.AppendUint32(b, 1<<nfs4.AttrSize)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // words that have attributes
	for range 5 {
		b = xdr.AppendUint32(b, 1<<31)
	}
	return append(b, w.back...)
}
func (wideBitmap) Decode(*xdr.Reader) {}

// TestWideBitmaps checks attribute sets that no minor version defines: they are not returned,
// and cannot be set (R8881-3.3.7-2).
func TestWideBitmaps(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	var res nfs4.GetAttrRes
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, wideBitmap{}, &res})
	assert.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.BitmapOf(nfs4.AttrSize), res.Attrs.Mask)
	stateid, size := make([]byte, 16), []byte{0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1}
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpSetAttr, wideBitmap{stateid, size}, new(nfs4.SetAttrRes)})
	assert.Equal(t, nfs4.ErrAttrNotSupp, st)
	st, _ = g.sendSteps(putStep(fh), step{nfs4.OpVerify, wideBitmap{nil, size}, newStatusRes()})
	assert.Equal(t, nfs4.ErrAttrNotSupp, st)
	assert.EqualValues(t, 7, g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSize)).Size)
}
