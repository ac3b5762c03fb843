package nfs4server

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
)

// TestModes checks the bits in mode and mode_set_masked.
func TestModes(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	mode := func(m uint32) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: m} }
	masked := func(value, mask uint32) nfs4.Attrs {
		return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrModeSetMasked), ModeSetMasked: nfs4.ModeMasked{Value: value, Mask: mask}}
	}
	both := masked(0, 1)
	both.Mask.Set(nfs4.AttrMode)
	// R8881-6.2.4-2: file type bits, in each operation that has modes.
	for _, bad := range []uint32{0o100644, 0o10000, 1 << 31} {
		assert.Equal(t, nfs4.ErrInval, g.setAttrs(fh, mode(bad)))
		for _, name := range []string{"f", "new"} {
			for _, how := range []nfs4.CreateMode{nfs4.Unchecked, nfs4.Guarded} {
				a := openArgs("o", name, nfs4.ShareBoth, 0, how)
				a.Attrs = mode(bad)
				_, _, st := g.openName(a)
				assert.Equal(t, nfs4.ErrInval, st, "OPEN of %s", name)
			}
		}
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("new"), Attrs: mode(bad)}, new(nfs4.CreateRes)})
		assert.Equal(t, nfs4.ErrInval, st)
		for _, op := range []nfs4.Op{nfs4.OpVerify, nfs4.OpNVerify} {
			st, _ := g.sendSteps(putStep(fh), step{op, &nfs4.VerifyArgs{Attrs: mode(bad)}, newStatusRes()})
			assert.Equal(t, nfs4.ErrInval, st, op)
		}
	}
	// R8881-6.2.5-1: in SETATTR alone, without mode, and no other bits.
	for _, bad := range []nfs4.Attrs{both, masked(0o10000, 0), masked(0, 0o10000)} {
		assert.Equal(t, nfs4.ErrInval, g.setAttrs(fh, bad))
	}
	for _, name := range []string{"f", "new"} {
		a := openArgs("o", name, nfs4.ShareBoth, 0, nfs4.Unchecked)
		a.Attrs = masked(0, 1)
		_, _, st := g.openName(a)
		assert.Equal(t, nfs4.ErrInval, st, "OPEN of %s", name)
	}
	st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("new"), Attrs: masked(0, 1)}, new(nfs4.CreateRes)})
	assert.Equal(t, nfs4.ErrInval, st)
	assert.Equal(t, []string{"f"}, g.listNames("x"))
	// R8881-6.2.5-2
	require.Equal(t, nfs4.OK, g.setAttrs(fh, mode(0o7777)))
	for _, tt := range []struct{ value, mask, want uint32 }{
		{0, 0o1000, 0o6777}, {0o1234, 0, 0o6777}, {0o1000, 0o1007, 0o7770}, {0o111, 0o7777, 0o111},
	} {
		assert.Equal(t, nfs4.OK, g.setAttrs(fh, masked(tt.value, tt.mask)))
		assert.Equal(t, tt.want, g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrMode)).Mode)
	}
}

// TestRights checks the users' rights besides the mode bits.
func TestRights(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	as := func(uid, gid uint32) { g.cred.UID, g.cred.GID = uid, gid }
	require.Equal(t, nfs4.OK, g.setAttrs(g.lookupPath("x"), nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode), Mode: 0o1777}))
	may := func(fh nfs4.FH) uint32 {
		var res nfs4.AccessRes
		st, _ := g.sendSteps(putStep(fh), step{nfs4.OpAccess, &nfs4.AccessArgs{Access: 0x3f}, &res})
		require.Equal(t, nfs4.OK, st)
		return res.Access
	}
	setTime := func(fh nfs4.FH, client bool) nfs4.Status {
		return g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeModifySet), TimeModifySet: nfs4.SetTime{Client: client}})
	}
	program := g.makeFile("program", "content")
	set := nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode, nfs4.AttrOwnerGroup), Mode: 0o111, OwnerGroup: []byte("50")}
	require.Equal(t, nfs4.OK, g.setAttrs(program, set))
	as(1000, 1000)
	opened, _, st := g.openName(openArgs("o", "program", nfs4.ShareRead, 0, nfs4.NoCreate))
	assert.Equal(t, nfs4.OK, st)
	got, st := g.readFile(program, opened.StateID)
	assert.Equal(t, nfs4.OK, st, "R8881-6.2.1.3.1-1: who may execute may read")
	assert.Equal(t, "content", got)
	assert.Equal(t, nfs4.AccessExecute, may(program), "R8881-6.2.1.3.1-2")

	// R8881-6.2.1.3.1-4: a writer may set times to the server's, the owner to any.
	as(0, 0)
	set.Mode = 0o660
	require.Equal(t, nfs4.OK, g.setAttrs(program, set))
	as(1000, 50)
	assert.Equal(t, nfs4.OK, setTime(program, false))
	assert.Equal(t, nfs4.ErrPerm, setTime(program, true))
	as(1000, 1000)
	assert.Equal(t, nfs4.ErrAccess, setTime(program, false))

	// R8881-5.8.2.6-1: an ordinary user cannot change a file's owner.
	mine := openArgs("o", "mine", nfs4.ShareBoth, 0, nfs4.Unchecked)
	mine.Attrs.Mode = 0o400
	res, fh, st := g.openName(mine)
	require.Equal(t, nfs4.OK, st)
	assert.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "data"), "R8881-6.3.1.1-1: the user who created it may write to it")
	assert.Equal(t, nfs4.ErrPerm, g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrOwner), Owner: []byte("1001")}))

	// R8881-6.2.1.3.2-1: in a sticky directory only owners remove names.
	remove := func() nfs4.Status {
		st, _ := g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("mine")}, new(nfs4.ChangeRes)})
		return st
	}
	as(1001, 1001)
	assert.Equal(t, nfs4.ErrAccess, remove())
	as(1000, 1000)
	assert.Equal(t, nfs4.OK, remove())
}

// TestSize checks SETATTR for the size (R8881-5.8.1.5-1).
func TestSize(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	size := func(n uint64) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrSize), Size: n} }
	fhs := g.makeObjects()
	for _, n := range []uint64{3, 10_000, 0} {
		assert.Equal(t, nfs4.OK, g.setAttrs(fhs["file"], size(n)))
		assert.Equal(t, n, g.getAttrs(fhs["file"], nfs4.BitmapOf(nfs4.AttrSize)).Size)
	}
	for name, want := range map[string][]nfs4.Status{
		"dir": {nfs4.ErrIsDir, nfs4.ErrWrongType, nfs4.ErrInval}, "link": {nfs4.ErrWrongType, nfs4.ErrInval}, "fifo": {nfs4.ErrWrongType, nfs4.ErrInval},
	} {
		assert.Contains(t, want, g.setAttrs(fhs[name], size(0)), name)
	}
}

// TestChange checks that the change attribute differs after each change to data, names and
// attributes (R8881-5.8.1.4-1), and the values in change_info4 (R8881-3.3.8-1).
//
// R8881-18.30.4-4.
func TestChange(t *testing.T) {
	for _, exclusive := range []bool{false, true} {
		o := free
		o.Exclusive = exclusive
		g := newTestServer(t, newMemoryExport("/x", o)).becomeRoot().connectClient()
		dir := g.lookupPath("x")
		change := func(fh nfs4.FH) uint64 { return g.getAttrs(fh, nfs4.BitmapOf(nfs4.AttrChange)).Change }
		before := change(dir)
		res, fh, st := g.openName(openArgs("o", "f", nfs4.ShareBoth, 0, nfs4.Guarded))
		require.Equal(t, nfs4.OK, st)
		check := func(what string, c nfs4.ChangeInfo) {
			t.Helper()
			after := change(dir)
			assert.Equal(t, nfs4.ChangeInfo{Atomic: exclusive, Before: before, After: after}, c, what)
			assert.NotEqual(t, before, after, what)
			before = after
		}
		check("OPEN", res.Dir)
		var made nfs4.CreateRes
		st, _ = g.sendSteps(putStep(dir), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("d")}, &made})
		require.Equal(t, nfs4.OK, st)
		check("CREATE", made.Dir)
		var changed nfs4.ChangeRes
		st, _ = g.sendSteps(putStep(fh), step{nfs4.OpSaveFH, &void, newStatusRes()}, putStep(dir), step{nfs4.OpLink, &nfs4.NameArgs{Name: []byte("l")}, &changed})
		require.Equal(t, nfs4.OK, st)
		check("LINK", changed.Dir)
		st, _ = g.sendSteps(putStep(dir), step{nfs4.OpRemove, &nfs4.NameArgs{Name: []byte("d")}, &changed})
		require.Equal(t, nfs4.OK, st)
		check("REMOVE", changed.Dir)
		var renamed nfs4.RenameRes
		st, _ = g.sendSteps(putStep(dir), step{nfs4.OpSaveFH, &void, newStatusRes()}, step{nfs4.OpRename, &nfs4.RenameArgs{Old: []byte("l"), New: []byte("m")}, &renamed})
		require.Equal(t, nfs4.OK, st)
		assert.Equal(t, renamed.Source, renamed.Target)
		check("RENAME", renamed.Target)

		seen := map[uint64]bool{change(fh): true}
		for range 1000 {
			require.Equal(t, nfs4.OK, g.writeFile(fh, res.StateID, "x"))
			c := change(fh)
			require.False(t, seen[c], "change %d came twice", c)
			seen[c] = true
		}
		require.Equal(t, nfs4.OK, g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrMode)}))
		assert.False(t, seen[change(fh)])
	}
}

// TestTimes checks times that a client gives, and the server's
// (R8881-5.8.2.2-1, R8881-5.8.2.38-1, R8881-5.8.2.44-1).
func TestTimes(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	both := nfs4.BitmapOf(nfs4.AttrTimeAccess, nfs4.AttrTimeModify)
	set := func(access, modify nfs4.SetTime) nfs4.Status {
		return g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet), TimeAccessSet: access, TimeModifySet: modify})
	}
	for _, tt := range []nfs4.Time{{}, {Sec: -1, Nsec: 500_000_000}, {Sec: 1 << 33, Nsec: 999_999_999}, {Sec: 5, Nsec: 123_456_789}} {
		client := nfs4.SetTime{Client: true, Time: tt}
		assert.Equal(t, nfs4.OK, set(client, client))
		a := g.getAttrs(fh, both)
		assert.Equal(t, tt, a.TimeAccess, "R8881-3.3.1-2")
		assert.Equal(t, tt, a.TimeModify, "R8881-3.3.1-2")
		bad := client
		bad.Time.Nsec = 1e9
		assert.Equal(t, nfs4.ErrInval, set(bad, client), "R8881-3.3.1-1")
		assert.Equal(t, nfs4.ErrInval, set(client, bad), "R8881-3.3.1-1")
		assert.Equal(t, nfs4.OK, set(nfs4.SetTime{Time: nfs4.Time{Sec: 7}}, client), "R8881-3.3.3-1")
		a = g.getAttrs(fh, both)
		assert.Greater(t, a.TimeAccess.Sec, int64(1<<30), "the server's time")
		assert.Equal(t, tt, a.TimeModify)
	}
}

// TestOwners checks owner strings without a domain.
func TestOwners(t *testing.T) {
	g := newTestServer(t, newMemoryExport("/x", free)).becomeRoot().connectClient()
	fh := g.makeFile("f", "content")
	for _, name := range []string{"0", "1000", "4294967294"} {
		for _, id := range []nfs4.AttrID{nfs4.AttrOwner, nfs4.AttrOwnerGroup} {
			assert.Equal(t, nfs4.OK, g.setAttrs(fh, nfs4.Attrs{Mask: nfs4.BitmapOf(id), Owner: []byte(name), OwnerGroup: []byte(name)}), "R8881-5.9-4")
			a := g.getAttrs(fh, nfs4.BitmapOf(id))
			assert.Equal(t, name, string(bytes.Join([][]byte{a.Owner, a.OwnerGroup}, nil)), "R8881-5.9-3")
		}
	}
	for _, name := range []string{"nobody", "nouser@nowhere", "root@localdomain", "", "01", "-1", "1 "} {
		want := nfs4.ErrBadOwner
		if name == "" {
			want = nfs4.ErrInval
		}
		for _, id := range []nfs4.AttrID{nfs4.AttrOwner, nfs4.AttrOwnerGroup} { // R8881-5.9-2, R8881-5.9-5
			a := nfs4.Attrs{Mask: nfs4.BitmapOf(id), Owner: []byte(name), OwnerGroup: []byte(name)}
			assert.Equal(t, want, g.setAttrs(fh, a), "%q", name)
			create := openArgs("o", "new", nfs4.ShareBoth, 0, nfs4.Unchecked)
			create.Attrs = a
			_, _, st := g.openName(create)
			assert.Equal(t, want, st, "OPEN with %q", name)
			st, _ = g.sendSteps(putRootStep(), lookupStep("x"), step{nfs4.OpCreate, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: []byte("new"), Attrs: a}, new(nfs4.CreateRes)})
			assert.Equal(t, want, st, "CREATE with %q", name)
		}
	}
}
