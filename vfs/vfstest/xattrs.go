package vfstest

import (
	"slices"
	"strings"
	"syscall"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// xattrFS returns the file system as vfs.Xattrs, or nil if it has no extended attributes.
func (r *testFS) xattrFS() vfs.Xattrs {
	x, ok := r.fs.(vfs.Xattrs)
	if !ok || !x.HasXattrs() {
		r.Log("does not apply: the file system has no extended attributes")
		return nil
	}
	return x
}

func testXattrs(r *testFS) {
	x := r.xattrFS()
	if x == nil {
		return
	}
	for _, h := range []vfs.Handle{r.createFile(r.root, "f", ""), r.createDir(r.root, "d")} {
		names := func() []string {
			names, err := x.ListXattrs(r.ctx, r.c, h)
			require.NoError(r, err)
			slices.Sort(names)
			return names
		}
		assert.Empty(r, names())
		_, err := x.GetXattr(r.ctx, r.c, h, "a")
		assert.ErrorIs(r, err, syscall.ENODATA)
		_, err = x.RemoveXattr(r.ctx, r.c, h, "a")
		assert.ErrorIs(r, err, syscall.ENODATA)
		for i, tt := range []struct {
			name, value string
			how         vfs.XattrHow
			err         error
			want        string // name's value afterwards
		}{
			{"a", "one", vfs.XattrReplace, syscall.ENODATA, ""},
			{"a", "one", vfs.XattrCreate, nil, "one"},
			{"a", "two", vfs.XattrCreate, syscall.EEXIST, "one"},
			{"a", "two, longer", vfs.XattrReplace, nil, "two, longer"},
			{"a", "", vfs.XattrEither, nil, ""},
			{"user.b", "\x00\xff", vfs.XattrEither, nil, "\x00\xff"},
			{strings.Repeat("n", vfs.MaxXattrName), "v", vfs.XattrEither, nil, "v"},
		} {
			before := r.getAttr(h)
			w, err := x.SetXattr(r.ctx, r.c, h, tt.name, []byte(tt.value), tt.how)
			assert.ErrorIs(r, err, tt.err, "%d", i)
			if err == nil {
				assert.NotEqual(r, before.Change, w.After.Change, "%d", i)
				assert.Equal(r, before.Change, w.Before.Change)
				assert.Equal(r, before.Mtime, w.After.Mtime)
				assert.Equal(r, r.getAttr(h), w.After.Attr)
			}
			if got, err := x.GetXattr(r.ctx, r.c, h, tt.name); i > 0 {
				require.NoError(r, err)
				assert.Equal(r, tt.want, string(got))
			}
		}
		assert.Equal(r, []string{"a", strings.Repeat("n", vfs.MaxXattrName), "user.b"}, names())
		for name, want := range map[string]error{"": syscall.EINVAL, "a\x00b": syscall.EINVAL, strings.Repeat("n", vfs.MaxXattrName+1): syscall.ERANGE} {
			_, err := x.GetXattr(r.ctx, r.c, h, name)
			assert.ErrorIs(r, err, want, "%q", name)
			_, err = x.SetXattr(r.ctx, r.c, h, name, nil, vfs.XattrEither)
			assert.ErrorIs(r, err, want, "%q", name)
			_, err = x.RemoveXattr(r.ctx, r.c, h, name)
			assert.ErrorIs(r, err, want, "%q", name)
		}
		_, err = x.SetXattr(r.ctx, r.c, h, "big", make([]byte, vfs.MaxXattrValue+1), vfs.XattrEither)
		assert.ErrorIs(r, err, syscall.E2BIG)
		before := r.getAttr(h)
		w, err := x.RemoveXattr(r.ctx, r.c, h, "user.b")
		require.NoError(r, err)
		assert.NotEqual(r, before.Change, w.After.Change)
		assert.NotContains(r, names(), "user.b")
	}
	link, err := r.fs.Symlink(r.ctx, r.c, r.root, "link", "f", vfs.SetAttr{})
	require.NoError(r, err)
	_, err = x.SetXattr(r.ctx, r.c, link.Handle, "a", nil, vfs.XattrEither)
	assert.Error(r, err, "of a symbolic link")
}

func testXattrRights(r *testFS) {
	x := r.xattrFS()
	if x == nil {
		return
	}
	f := r.createFile(r.root, "f", "")
	_, err := x.SetXattr(r.ctx, r.c, f, "a", []byte("v"), vfs.XattrEither)
	require.NoError(r, err)
	other := &vfs.Cred{UID: r.c.UID + 1, GID: r.c.GID + 1}
	for m, may := range map[uint32][2]bool{0o600: {}, 0o604: {true, false}, 0o602: {false, true}, 0o606: {true, true}} {
		r.setAttr(f, modeAttr(m))
		want := map[bool]error{true: nil, false: errAccess}
		_, err := x.GetXattr(r.ctx, other, f, "a")
		assert.ErrorIs(r, err, want[may[0]], "%o", m)
		_, err = x.SetXattr(r.ctx, other, f, "b", nil, vfs.XattrEither)
		assert.ErrorIs(r, err, want[may[1]], "%o", m)
		_, err = x.RemoveXattr(r.ctx, other, f, "b")
		assert.ErrorIs(r, err, want[may[1]], "%o", m)
		names, err := x.ListXattrs(r.ctx, other, f)
		require.NoError(r, err, "listing needs no right")
		assert.Equal(r, []string{"a"}, names)
	}
}
