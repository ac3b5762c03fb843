package nfs4server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// defaultList is the list user::rwx, group::rwx and other::r-x encoded as the host's extended
// attribute.
const defaultList = "\x02\x00\x00\x00" +
	"\x01\x00\x07\x00\xff\xff\xff\xff" + "\x04\x00\x07\x00\xff\xff\xff\xff" + "\x20\x00\x05\x00\xff\xff\xff\xff"

// TestModeUmask makes objects with a mode and a umask, in directories with and without a
// default list, which replaces the umask (RFC 8275).
//
// R8275-3-1, R8275-5-1, R8275-5-2, R8275-5-3, R8275-5-4, R8275-5-5, R8275-5-6.
func TestModeUmask(t *testing.T) {
	g, dir := newDiskServerAt(t, "/dev/shm")
	require.NoError(t, unix.Mkdir(dir+"/plain", 0o777))
	require.NoError(t, unix.Mkdir(dir+"/list", 0o777))
	require.NoError(t, unix.Setxattr(dir+"/list", "system.posix_acl_default", []byte(defaultList), 0))
	one := nfs4.BitmapOf(nfs4.AttrModeUmask)
	attrs := func(mode, umask uint32, more ...nfs4.AttrID) nfs4.Attrs {
		a := nfs4.Attrs{Mask: one, ModeUmask: nfs4.ModeUmask{Mode: mode, Umask: umask}, Mode: 0o600}
		for _, id := range more {
			a.Mask.Set(id)
		}
		return a
	}
	both := map[string]func(in string, a nfs4.Attrs) nfs4.Status{
		"OPEN": func(in string, a nfs4.Attrs) nfs4.Status {
			o := openArgs("o", "new", nfs4.ShareBoth, 0, nfs4.Guarded)
			o.Attrs = a
			st, _ := g.sendSteps(putRootStep(), lookupStep("x"), lookupStep(in), step{nfs4.OpOpen, o, new(nfs4.OpenRes)})
			return st
		},
		"CREATE": func(in string, a nfs4.Attrs) nfs4.Status {
			c := nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("new"), Attrs: a}
			st, _ := g.sendSteps(putRootStep(), lookupStep("x"), lookupStep(in), step{nfs4.OpCreate, &c, new(nfs4.CreateRes)})
			return st
		},
	}
	for op, create := range both {
		for _, tt := range []struct{ mode, umask, plain, list uint32 }{
			{0o666, 0o022, 0o644, 0o664}, {0o777, 0o077, 0o700, 0o775}, {0o640, 0o777, 0, 0o640}, {0o600, 0, 0o600, 0o600},
		} {
			for in, want := range map[string]uint32{"plain": tt.plain, "list": tt.list} {
				require.Equal(t, nfs4.OK, create(in, attrs(tt.mode, tt.umask)))
				got := g.getAttrs(g.lookupPath("x", in, "new"), nfs4.BitmapOf(nfs4.AttrMode)).Mode
				assert.Equal(t, want, got, "%s of %o with umask %o in %s", op, tt.mode, tt.umask, in)
				st, _ := g.sendSteps(putRootStep(), lookupStep("x"), lookupStep(in), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("new")}, new(nfs4.ChangeRes)})
				require.Equal(t, nfs4.OK, st)
			}
		}
		assert.Equal(t, nfs4.ErrInval, create("plain", attrs(0o666, 0o1000)), op)
		assert.Equal(t, nfs4.ErrInval, create("plain", attrs(0o10000, 0)), op)
		assert.Equal(t, nfs4.ErrInval, create("plain", attrs(0o666, 0o022, nfs4.AttrMode)), op)
	}
	fh := g.lookupPath("x", "plain")
	assert.Equal(t, nfs4.ErrInval, g.setAttrs(fh, attrs(0o666, 0)))
	for _, op := range []nfs4.Op{nfs4.OpVerify, nfs4.OpNVerify} {
		st, _ := g.sendSteps(putStep(fh), step{op, &nfs4.VerifyArgs{Attrs: attrs(0o666, 0)}, newStatusRes()})
		assert.Equal(t, nfs4.ErrInval, st, op)
	}
	st, _ := g.sendSteps(putStep(fh), step{nfs4.OpGetAttr, &nfs4.GetAttrArgs{Request: one}, new(nfs4.GetAttrRes)})
	assert.Equal(t, nfs4.ErrInval, st)
	for minor, want := range map[uint32]bool{nfs4.Minor1: false, nfs4.Minor2: true} {
		g.minor = minor
		g.connectAs(fmt.Sprint("by 4.", minor))
		have := g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrSupportedAttrs)).SupportedAttrs
		assert.Equal(t, want, have.Has(nfs4.AttrModeUmask), minor)
	}
}
