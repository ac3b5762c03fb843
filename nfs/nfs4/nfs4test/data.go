package nfs4test

import (
	"math"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// allRights are all ACCESS bits.
const allRights = nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessDelete | nfs4.AccessExecute

// checkWrongTypes sends operations for regular files to objects of all other
// types.
func (t *T) checkWrongTypes(ops ...op) {
	all := func(st nfs4.Status, at op) {
		for _, o := range ops {
			t.expectStatus(st, at, o)
		}
	}
	t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
		switch kind {
		case nfs4.TypeReg:
		case nfs4.TypeDir:
			all(nfs4.ErrIsDir, putFH(fh))
		case nfs4.TypeLnk:
			all(nfs4.ErrSymlink, putFH(fh))
		default:
			all(nfs4.ErrWrongType, putFH(fh))
		}
	})
	all(nfs4.ErrIsDir, putRootFH())
}

// data are scenarios for ACCESS, READ, WRITE, COMMIT and READLINK.
var data = []Scenario{
	{Name: "ACCESS of objects of each type", By: "RFC 8881, 18.1.3", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			for _, want := range []uint32{0, nfs4.AccessRead, nfs4.AccessModify | nfs4.AccessExtend, allRights} {
				var res nfs4.AccessRes
				t.expectStatus(nfs4.OK, putFH(fh), accessOp(want, &res))
				assert.Zero(t, res.Supported&^want, "%s: no right that was not asked for", name)
				assert.Zero(t, res.Access&^res.Supported, "%s: no right that is not supported", name)
				assert.Equal(t, want&nfs4.AccessRead, res.Supported&nfs4.AccessRead, name)
			}
		})
	}},
	{Name: "ACCESS to undefined rights", By: "RFC 8881, 15.1.1.4: NFS4ERR_INVAL, or they are not supported", run: func(t *T) {
		var res nfs4.AccessRes
		t.expectOneOf([]nfs4.Status{nfs4.ErrInval, nfs4.OK}, putFH(t.ownDir()), accessOp(1<<20|nfs4.AccessRead, &res))
		assert.Zero(t, res.Supported&^nfs4.AccessRead)
	}},
	{Name: "ACCESS by a caller without rights", By: "RFC 8881, 18.1.3", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o700)), putFH(t.ownDir()))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		var res nfs4.AccessRes
		s.expectStatus(nfs4.OK, putFH(fh), accessOp(allRights, &res))
		assert.Zero(t, res.Access)
	}},
	{Name: "READ", By: "RFC 8881, 18.22.3", run: func(t *T) {
		f := t.newFile("f", "0123456789")
		for _, tt := range []struct {
			off   uint64
			count uint32
			want  string
			eof   bool
		}{
			{0, 10, "0123456789", true},
			{0, 5, "01234", false},
			{5, 5, "56789", true},
			{5, 100, "56789", true},
			{9, 1, "9", true},
			{10, 1, "", true},
			{11, 10, "", true},
			{1 << 40, 10, "", true},
			{math.MaxInt64, 1, "", true},
			{math.MaxUint64, 1, "", true},
			{math.MaxUint64 - 5, 100, "", true},
			{3, 0, "", false},
		} {
			var res nfs4.ReadRes
			t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, tt.off, tt.count, &res))
			assert.Equal(t, tt.want, string(res.Data), "%d bytes from %d", tt.count, tt.off)
			assert.Equal(t, tt.eof, res.EOF, "%d bytes from %d", tt.count, tt.off)
		}
	}},
	{Name: "READ of an empty file", By: "RFC 8881, 18.22.3: eof is always TRUE", run: func(t *T) {
		f := t.newFile("f", "")
		for _, count := range []uint32{0, 1, 1000} {
			var res nfs4.ReadRes
			t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, count, &res))
			assert.True(t, res.EOF)
			assert.Empty(t, res.Data)
		}
	}},
	{Name: "READ of a huge count", By: "RFC 8881, 18.22.3: fewer bytes may be returned", run: func(t *T) {
		f := t.newFile("f", strings.Repeat("x", 3000))
		for _, count := range []uint32{4000, 1 << 20, math.MaxUint32} {
			var res nfs4.ReadRes
			t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, count, &res))
			assert.Len(t, res.Data, 3000)
		}
	}},
	{Name: "two READs", By: "RFC 8881, 16.2.3", run: func(t *T) {
		f := t.newFile("f", "0123456789")
		var one, two nfs4.ReadRes
		var attr nfs4.GetAttrRes
		t.expectStatus(nfs4.OK, putFH(f.fh), readOp(f.id, 0, 3, &one), getAttr(&attr, nfs4.AttrSize), readOp(f.id, 3, 30, &two), getAttr(&attr, nfs4.AttrSize))
		assert.Equal(t, "012", string(one.Data))
		assert.Equal(t, "3456789", string(two.Data))
	}},
	{Name: "READ of what is no file", By: "RFC 8881, 18.22.3", Linux: "NFS4ERR_INVAL, as minor version 0 has it", run: func(t *T) {
		t.checkWrongTypes(readOp(nfs4.StateID{}, 0, 10, new(nfs4.ReadRes)))
	}},
	{Name: "READ without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		f := t.openAs(t.ownSession(), "f", "a", nfs4.ShareBoth, 0)
		t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(nfs4.StateID{}, modeAttrs(0o600)))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.ErrAccess, putFH(f.fh), readOp(nfs4.AnonymousStateID, 0, 10, new(nfs4.ReadRes)))
		s.expectStatus(nfs4.ErrAccess, putFH(f.fh), writeOp(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
	}},
	{Name: "WRITE", By: "RFC 8881, 18.32.3: committed is at least as requested", run: func(t *T) {
		f := t.newFile("f", "")
		var first nfs4.WriteRes
		t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, 0, nfs4.Unstable, "x", &first))
		for how := nfs4.Unstable; how <= nfs4.FileSync; how++ {
			var res nfs4.WriteRes
			t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, 10*uint64(how), how, "0123456789", &res))
			assert.EqualValues(t, 10, res.Count)
			assert.GreaterOrEqual(t, res.Committed, how)
			assert.Equal(t, first.Verf, res.Verf, "the verifier of one instance")
		}
		assert.EqualValues(t, 30, t.getAttrs(f.fh, nfs4.AttrSize).Size)
		var res nfs4.CommitRes
		t.expectStatus(nfs4.OK, putFH(f.fh), commitOp(0, 0, &res))
		assert.Equal(t, first.Verf, res.Verf)
	}},
	{Name: "WRITE of nothing", By: "RFC 8881, 18.32.3: it succeeds, subject to permissions checking", run: func(t *T) {
		f := t.newFile("f", "abc")
		var res nfs4.WriteRes
		t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, 100, nfs4.Unstable, "", &res))
		assert.Zero(t, res.Count)
		assert.EqualValues(t, 3, t.getAttrs(f.fh, nfs4.AttrSize).Size)
	}},
	{Name: "WRITE of each length up to a word", By: "RFC 4506, 4.10: padding", run: func(t *T) {
		f := t.newFile("f", "")
		for n := range 9 {
			var res nfs4.WriteRes
			var got nfs4.ReadRes
			text := "abcdefghi"[:n]
			t.expectStatus(nfs4.OK, putFH(f.fh), setAttr(f.id, sizeAttrs(0)), writeOp(f.id, 0, nfs4.Unstable, text, &res), readOp(f.id, 0, 100, &got))
			assert.Equal(t, text, string(got.Data))
		}
	}},
	{Name: "WRITE leaves a hole", By: "RFC 8881, 18.32.4", run: func(t *T) {
		f := t.newFile("f", "")
		var res nfs4.ReadRes
		t.expectStatus(nfs4.OK, putFH(f.fh), writeOp(f.id, 5, nfs4.Unstable, "x", new(nfs4.WriteRes)), readOp(f.id, 0, 100, &res))
		assert.Equal(t, "\x00\x00\x00\x00\x00x", string(res.Data))
	}},
	{Name: "WRITE beyond the largest file", By: "RFC 8881, 15.1.4.4: NFS4ERR_FBIG", run: func(t *T) {
		f := t.newFile("f", "")
		for _, off := range []uint64{math.MaxUint64, math.MaxUint64 - 3, 1 << 63, math.MaxInt64} {
			t.expectOneOf([]nfs4.Status{nfs4.ErrFBig, nfs4.ErrInval}, putFH(f.fh), writeOp(f.id, off, nfs4.Unstable, "1234", new(nfs4.WriteRes)))
		}
		assert.Zero(t, t.getAttrs(f.fh, nfs4.AttrSize).Size)
	}},
	{Name: "WRITE with an undefined stable_how4", By: "RFC 5662: stable_how4", run: func(t *T) {
		f := t.newFile("f", "")
		t.expectStatus(nfs4.ErrBadXDR, putFH(f.fh), writeOp(f.id, 0, 3, "x", new(nfs4.WriteRes)))
	}},
	{Name: "WRITE to what is no file", By: "RFC 8881, 18.32.3", Linux: "NFS4ERR_INVAL, as minor version 0 has it", run: func(t *T) {
		t.checkWrongTypes(writeOp(nfs4.StateID{}, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
	}},
	{Name: "WRITE that others deny", By: "RFC 8881, 9.7: NFS4ERR_SHARE_DENIED at OPEN, NFS4ERR_LOCKED at WRITE", run: func(t *T) {
		f := t.openAs(t.ownSession(), "f", "a", nfs4.ShareRead, nfs4.ShareWrite)
		s := t.newClient().newSession().completeReclaim()
		s.expectStatus(nfs4.ErrLocked, putFH(f.fh), writeOp(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
		t.expectStatus(nfs4.OK, putFH(f.fh), closeFile(f.id))
		s.expectStatus(nfs4.OK, putFH(f.fh), writeOp(nfs4.AnonymousStateID, 0, nfs4.Unstable, "x", new(nfs4.WriteRes)))
	}},
	{Name: "COMMIT of ranges", By: "RFC 8881, 18.3.3", run: func(t *T) {
		f := t.newFile("f", "some data")
		for _, r := range [][2]uint64{{0, 0}, {0, 5}, {5, 0}, {100, 100}, {1 << 40, 0}} {
			t.expectStatus(nfs4.OK, putFH(f.fh), commitOp(r[0], uint32(r[1]), new(nfs4.CommitRes)))
		}
	}},
	{Name: "COMMIT of a range that wraps around", By: "RFC 8881, 18.3.3; 15.2 has no NFS4ERR_INVAL for COMMIT", run: func(t *T) {
		f := t.newFile("f", "some data")
		rep := t.ownSession().callWithSequence(putFH(f.fh), commitOp(math.MaxUint64, math.MaxUint32, new(nfs4.CommitRes)))
		assert.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrInval}, rep.status)
	}},
	{Name: "COMMIT of what is no file", By: "RFC 8881, 15.2", Linux: "NFS4ERR_INVAL, as minor version 0 has it", run: func(t *T) {
		t.checkWrongTypes(commitOp(0, 0, new(nfs4.CommitRes)))
	}},
	{Name: "READLINK", By: "RFC 8881, 18.24.3", run: func(t *T) {
		var res nfs4.ReadLinkRes
		t.expectStatus(nfs4.OK, putFH(t.newObject(nfs4.TypeLnk, "l")), readLink(&res))
		assert.Equal(t, "target", string(res.Link))
	}},
	{Name: "READLINK of what is no link", By: "RFC 8881, 18.24.4: NFS4ERR_WRONG_TYPE", Linux: "NFS4ERR_INVAL, as minor version 0 has it", run: func(t *T) {
		t.forEachType(func(name string, kind nfs4.FileType, fh nfs4.FH) {
			if kind != nfs4.TypeLnk {
				t.expectStatus(nfs4.ErrWrongType, putFH(fh), readLink(new(nfs4.ReadLinkRes)))
			}
		})
		t.expectStatus(nfs4.ErrWrongType, putRootFH(), readLink(new(nfs4.ReadLinkRes)))
	}},
	{Name: "a file that is open is removed", By: "RFC 8881, 18.25.4", run: func(t *T) {
		f := t.newFile("f", "data")
		t.expectStatus(nfs4.OK, putFH(t.ownDir()), removeOp("f"))
		t.expectStatus(nfs4.ErrNoEnt, putFH(t.ownDir()), lookupOp("f"))
		rep := t.ownSession().callWithSequence(putFH(f.fh), readOp(f.id, 0, 10, new(nfs4.ReadRes)))
		require.Contains(t, []nfs4.Status{nfs4.OK, nfs4.ErrStale}, rep.status)
	}},
}
