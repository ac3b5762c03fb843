package nfs4test

import (
	"fmt"
	"math"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// makeFullDir creates a directory with n subdirectories, and returns its handle
// and the sorted names.
func (t *T) makeFullDir(n int) (nfs4.FH, []string) {
	fh := t.newObject(nfs4.TypeDir, "crowd")
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("name %03d", i))
		t.expectStatus(nfs4.OK, putFH(fh), createOp(nfs4.TypeDir, names[i], modeAttrs(0o755)))
	}
	return fh, names
}

// listAll lists a directory with replies of at most maxCount bytes.
func (t *T) listAll(fh nfs4.FH, maxCount uint32, request nfs4.Bitmap) (names []string, calls int) {
	a := nfs4.ReadDirArgs{DirCount: maxCount, MaxCount: maxCount, Request: request}
	for calls = 1; calls < 1000; calls++ {
		var res listing
		t.expectStatus(nfs4.OK, putFH(fh), readDir(a, &res))
		require.LessOrEqual(t, res.size, int(maxCount), "18.23.3: maxcount is the largest READDIR4resok")
		for _, c := range res.cookies {
			assert.Greater(t, c, uint64(2), "18.23.3: cookies 0, 1 and 2 are reserved")
		}
		names = append(names, res.names...)
		if res.eof {
			break
		}
		require.NotEmpty(t, res.names)
		a.Cookie, a.Verf = res.cookies[len(res.cookies)-1], res.Verf
	}
	slices.Sort(names)
	return names, calls
}

// readdirs are scenarios for READDIR.
var readdirs = []Scenario{
	{Name: "READDIR of an empty directory", By: "RFC 8881, 18.23.3: neither . nor ..", run: func(t *T) {
		names, calls := t.listAll(t.newObject(nfs4.TypeDir, "d"), 4096, nfs4.Bitmap{})
		assert.Empty(t, names)
		assert.Equal(t, 1, calls)
	}},
	{Name: "READDIR in one reply and in many", By: "RFC 8881, 18.23.3", run: func(t *T) {
		fh, want := t.makeFullDir(60)
		for _, count := range []uint32{200, 300, 1000, 60_000} {
			for _, request := range []nfs4.Bitmap{{}, nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrFileID)} {
				names, calls := t.listAll(fh, count, request)
				assert.Equal(t, want, names, "with %d bytes", count)
				assert.Equal(t, count == 60_000, calls == 1, "%d calls with %d bytes", calls, count)
			}
		}
	}},
	{Name: "READDIR of the root", By: "RFC 8881, 7.3", run: func(t *T) {
		var root nfs4.HandleRes
		t.expectStatus(nfs4.OK, putRootFH(), getFH(&root))
		names, _ := t.listAll(slices.Clone(root.Object), 4096, nfs4.BitmapOf(nfs4.AttrType, nfs4.AttrFSID, nfs4.AttrMountedOnFileID))
		if len(t.Path) > 0 {
			assert.Contains(t, names, t.Path[0])
		}
	}},
	{Name: "READDIR with too small a maxcount", By: "RFC 8881, 18.23.3: NFS4ERR_TOOSMALL", run: func(t *T) {
		fh, _ := t.makeFullDir(1)
		for _, count := range []uint32{0, 1, 15, 30} {
			t.expectStatus(nfs4.ErrTooSmall, putFH(fh), readDir(nfs4.ReadDirArgs{MaxCount: count}, new(listing)))
		}
		t.expectStatus(nfs4.ErrTooSmall, putFH(fh), readDir(nfs4.ReadDirArgs{
			MaxCount: 60, Request: nfs4.BitmapOf(nfs4.AttrSupportedAttrs, nfs4.AttrFileHandle, nfs4.AttrOwner),
		}, new(listing)))
	}},
	{Name: "READDIR with a huge maxcount", By: "RFC 8881, 18.23.3: the server MAY return less", run: func(t *T) {
		fh, want := t.makeFullDir(5)
		names, _ := t.listAll(fh, math.MaxUint32, nfs4.Bitmap{})
		assert.Equal(t, want, names)
	}},
	{Name: "READDIR with a dircount of 0 or 1", By: "RFC 8881, 18.23.4: a hint", run: func(t *T) {
		fh, _ := t.makeFullDir(3)
		for _, count := range []uint32{0, 1} {
			var res listing
			t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{DirCount: count, MaxCount: 4096}, &res))
			assert.NotEmpty(t, res.names)
		}
	}},
	{Name: "READDIR with reserved cookies", By: "RFC 8881, 18.23.3: 1 and 2 are reserved; 15.1.1.2: NFS4ERR_BAD_COOKIE", run: func(t *T) {
		fh, _ := t.makeFullDir(3)
		for _, cookie := range []uint64{1, 2} {
			t.expectStatus(nfs4.ErrBadCookie, putFH(fh), readDir(nfs4.ReadDirArgs{Cookie: cookie, MaxCount: 4096}, new(listing)))
		}
	}},
	{Name: "READDIR with a verifier that does not match", By: "RFC 8881, 18.23.3: NFS4ERR_NOT_SAME, if the server judges it", run: func(t *T) {
		fh, _ := t.makeFullDir(3)
		var res listing
		t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{MaxCount: 4096}, &res))
		v := res.Verf
		v[3] ^= 0xff
		t.expectOneOf([]nfs4.Status{nfs4.OK, nfs4.ErrNotSame, nfs4.ErrBadCookie}, putFH(fh),
			readDir(nfs4.ReadDirArgs{Cookie: res.cookies[0], Verf: v, MaxCount: 4096}, new(listing)))
	}},
	{Name: "READDIR from a cookie whose entry has gone", By: "RFC 8881, 18.23.4", Linux: "an entry is left out: cookies of tmpfs are positions until Linux 6.6", run: func(t *T) {
		fh, want := t.makeFullDir(10)
		var res listing
		t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{MaxCount: 4096}, &res))
		require.Len(t, res.names, 10)
		t.expectStatus(nfs4.OK, putFH(fh), removeOp(res.names[4]))
		rest := res.names[5:]
		t.expectStatus(nfs4.OK, putFH(fh), readDir(nfs4.ReadDirArgs{Cookie: res.cookies[4], Verf: res.Verf, MaxCount: 4096}, &res))
		assert.Equal(t, rest, res.names)
		assert.Len(t, want, 10)
	}},
	{Name: "READDIR with attributes that can only be set", By: "RFC 8881, 5.5: NFS4ERR_INVAL", run: func(t *T) {
		fh, _ := t.makeFullDir(1)
		t.expectStatus(nfs4.ErrInval, putFH(fh), readDir(nfs4.ReadDirArgs{MaxCount: 4096, Request: nfs4.BitmapOf(nfs4.AttrTimeModifySet)}, new(listing)))
	}},
	{Name: "READDIR with every attribute", By: "RFC 8881, 18.23.3", run: func(t *T) {
		fh, want := t.makeFullDir(3)
		t.expectStatus(nfs4.OK, putFH(fh), createOp(nfs4.TypeLnk, "z", modeAttrs(0o777)))
		names, _ := t.listAll(fh, 16<<10, nfs4.BitmapOf(t.supportedAttrs(fh)...))
		assert.Equal(t, append(want, "z"), names)
	}},
	{Name: "READDIR in what is no directory", By: "RFC 8881, 15.1.2.6: NFS4ERR_NOTDIR", Linux: "NFS4ERR_SYMLINK for a link", run: func(t *T) {
		t.eachNonDir(func(fh nfs4.FH) {
			t.expectStatus(nfs4.ErrNotDir, putFH(fh), readDir(nfs4.ReadDirArgs{MaxCount: 4096}, new(listing)))
		})
	}},
	{Name: "READDIR without permission", By: "RFC 8881, 15.1.6.1: NFS4ERR_ACCESS", run: func(t *T) {
		fh := t.createObject(createOp(nfs4.TypeDir, "private", modeAttrs(0o700)), putFH(t.ownDir()))
		s := t.dial().withUID(7).newClientID(t.uniqueName()).newSession().completeReclaim()
		s.expectStatus(nfs4.ErrAccess, putFH(fh), readDir(nfs4.ReadDirArgs{MaxCount: 4096}, new(listing)))
	}},
}
