package vfstest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Callers who are nobody on any host.
var (
	alice   = vfs.Cred{UID: 70001, GID: 70001, Groups: []uint32{70100, 70101}}
	bob     = vfs.Cred{UID: 70002, GID: 70002, Groups: groups(40)}
	carol   = vfs.Cred{UID: 70003, GID: 70003}
	su      = vfs.Cred{}
	invalid = vfs.Cred{UID: 1<<32 - 1, GID: 1<<32 - 1}
)

// groups returns so many groups, the last of which is alice's too.
func groups(n int) (g []uint32) {
	for i := range uint32(n - 1) {
		g = append(g, 71000+i)
	}
	return append(g, alice.Groups[0])
}

// rwx are the rights of one who is told so by three bits of a mode.
func rwx(bits uint32) (mask uint32) {
	if bits&4 != 0 {
		mask |= vfs.AccessRead
	}
	if bits&2 != 0 {
		mask |= vfs.AccessModify | vfs.AccessExtend
	}
	if bits&1 != 0 {
		mask |= vfs.AccessExecute
	}
	return mask
}

const allAccess = vfs.AccessRead | vfs.AccessLookup | vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete | vfs.AccessExecute

// Access, Read and Write agree with the mode for owner, group and others.
func testRights(r *rig) {
	root := r.as(su)
	for _, m := range []uint32{0o000, 0o400, 0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o640, 0o604, 0o070, 0o077, 0o007, 0o777, 0o123} {
		f := root.file(r.root, fmt.Sprintf("f%o", m), "data")
		root.setAttr(f, vfs.SetAttr{Mode: &m, UID: &alice.UID, GID: &alice.Groups[0]})
		for _, who := range []struct {
			name string
			c    vfs.Cred
			bits uint32
		}{
			{"owner", alice, m >> 6},
			{"group", bob, m >> 3},
			{"other", carol, m},
			{"root", su, 6 | (m>>6|m>>3|m)&1},
			{"nobody", invalid, 0},
		} {
			what := fmt.Sprintf("%s, mode %o", who.name, m)
			bits := who.bits & 7
			got, a, err := r.fs.Access(r.ctx, &who.c, f, allAccess)
			require.NoError(r, err, what)
			assert.True(r, a.OK)
			assert.Equal(r, rwx(bits), got, what)
			got, _, err = r.fs.Access(r.ctx, &who.c, f, vfs.AccessRead)
			require.NoError(r, err)
			assert.Equal(r, rwx(bits)&vfs.AccessRead, got, what)

			// The owner reads and writes all the same, and who may execute
			// reads (RFC 1813, Section 4.4).
			owner := who.name == "owner"
			n, _, _, err := r.fs.Read(r.ctx, &who.c, f, make([]byte, 4), 0)
			may(r, err, owner || bits&5 != 0, "reading: "+what)
			assert.Equal(r, err == nil, n == 4)
			_, _, _, err = r.fs.Write(r.ctx, &who.c, f, []byte("data"), 0, vfs.Unstable)
			may(r, err, owner || bits&2 != 0, "writing: "+what)
			_, err = r.fs.Commit(r.ctx, &who.c, f, 0, 0)
			may(r, err, owner || bits&2 != 0, "committing: "+what)
			_, err = r.fs.SetAttr(r.ctx, &who.c, f, vfs.SetAttr{Size: ptr(uint64(4))}, nil)
			may(r, err, owner || bits&2 != 0, "truncating: "+what)
		}
	}
}

// may asserts that there was permission, or there was none.
func may(r *rig, err error, yes bool, what string) {
	r.Helper()
	if yes {
		assert.NoError(r, err, what)
	} else {
		assert.ErrorIs(r, err, errAccess, what)
	}
}

// A permission that is taken away is gone at once, though the file is open.
func testRightsChange(r *rig) {
	root := r.as(su)
	f := root.file(r.root, "f", "data")
	root.setAttr(f, mode(0o666))
	check := func(yes bool, what string) {
		r.Helper()
		_, _, _, err := r.fs.Read(r.ctx, &bob, f, make([]byte, 4), 0)
		may(r, err, yes, "reading "+what)
		_, _, _, err = r.fs.Write(r.ctx, &bob, f, []byte("data"), 0, vfs.Unstable)
		may(r, err, yes, "writing "+what)
	}
	check(true, "what all may")
	root.setAttr(f, mode(0o660))
	check(false, "what root took away")
	root.setAttr(f, vfs.SetAttr{GID: &bob.Groups[3]})
	check(true, "what his group may")
	root.setAttr(f, vfs.SetAttr{GID: &carol.GID})
	check(false, "what another group may")
	root.setAttr(f, vfs.SetAttr{UID: &bob.UID})
	check(true, "what he owns")
}

// Bits that give rights away do not survive a stranger's write.
func testRightsOwner(r *rig) {
	root := r.as(su)
	f := root.file(r.root, "f", "data")
	for _, tt := range []struct {
		name string
		c    vfs.Cred
		call func(c *vfs.Cred) error
		want uint32
	}{
		{"write", bob, func(c *vfs.Cred) error {
			_, _, _, err := r.fs.Write(r.ctx, c, f, []byte("x"), 0, vfs.Unstable)
			return err
		}, 0o777},
		{"truncation", bob, func(c *vfs.Cred) error {
			_, err := r.fs.SetAttr(r.ctx, c, f, vfs.SetAttr{Size: ptr(uint64(1))}, nil)
			return err
		}, 0o777},
		{"root's write", su, func(c *vfs.Cred) error {
			_, _, _, err := r.fs.Write(r.ctx, c, f, []byte("x"), 0, vfs.Unstable)
			return err
		}, 0o6777},
	} {
		root.setAttr(f, vfs.SetAttr{UID: &alice.UID, Mode: ptr(uint32(0o6777))})
		require.NoError(r, tt.call(&tt.c), tt.name)
		assert.Equal(r, tt.want, r.attr(f).Mode, tt.name)
	}
	// The bit that means no group to run as is not such a right.
	root.setAttr(f, vfs.SetAttr{UID: &alice.UID, GID: &alice.Groups[0], Mode: ptr(uint32(0o2666))})
	_, _, _, err := r.fs.Write(r.ctx, &bob, f, []byte("x"), 0, vfs.Unstable)
	require.NoError(r, err)
	assert.EqualValues(r, 0o2666, r.attr(f).Mode, "a write by one of the group")
}

// What directories allow is the kernel's to say too.
func testRightsDir(r *rig) {
	root := r.as(su)
	d := root.dir(r.root, "d")
	root.setAttr(d, vfs.SetAttr{UID: &alice.UID, GID: &alice.Groups[0]})
	f := root.file(d, "f", "")
	root.setAttr(f, vfs.SetAttr{UID: &carol.UID})
	for m := range uint32(8) {
		root.setAttr(d, mode(m<<3))
		what := fmt.Sprintf("group has %o", m)
		look, change := m&1 != 0, m&3 == 3
		got, _, err := r.fs.Access(r.ctx, &bob, d, allAccess)
		require.NoError(r, err)
		var want uint32
		if m&4 != 0 {
			want |= vfs.AccessRead
		}
		if look {
			want |= vfs.AccessLookup
		}
		if change {
			want |= vfs.AccessModify | vfs.AccessExtend | vfs.AccessDelete
		}
		assert.Equal(r, want, got, what)
		for _, name := range []string{"f", ".", ".."} {
			_, _, _, err = r.fs.Lookup(r.ctx, &bob, d, name)
			may(r, err, look, "looking up "+name+": "+what)
		}
		_, _, _, err = r.fs.ReadDir(r.ctx, &bob, d, 0, 0, false, func(*vfs.Entry) bool { return true })
		may(r, err, m&4 != 0, "listing: "+what)
		handles := 0
		if _, _, _, err = r.fs.ReadDir(r.ctx, &bob, d, 0, 0, true, func(e *vfs.Entry) bool {
			if string(e.Name) == "f" && e.HasHandle {
				handles++
			}
			return true
		}); err == nil {
			assert.Equal(r, look, handles == 1, "handles to who may not search: %s", what)
		}
		_, err = r.fs.Create(r.ctx, &bob, d, "new", guarded(0o600))
		may(r, err, change, "creating: "+what)
		_, _, err = r.fs.Link(r.ctx, &carol, f, d, "link")
		may(r, err, false, "linking: "+what)
		_, _, err = r.fs.Rename(r.ctx, &bob, d, "f", d, "g")
		may(r, err, change, "renaming: "+what)
		if change {
			_, _, err = r.fs.Rename(r.ctx, &bob, d, "g", d, "f")
			require.NoError(r, err)
			_, err = r.fs.Remove(r.ctx, &bob, d, "new")
			require.NoError(r, err)
		} else {
			_, err = r.fs.Remove(r.ctx, &bob, d, "f")
			may(r, err, false, "removing: "+what)
		}
		_, err = r.fs.GetAttr(r.ctx, &bob, f)
		assert.NoError(r, err, "attributes are for all who have the handle")
	}
	root.setAttr(d, mode(0o1777))
	_, err := r.fs.Remove(r.ctx, &bob, d, "f")
	assert.ErrorIs(r, err, errPerm, "another's file in a sticky directory")
}

// Writers may set times to now, owners to anything.
func testRightsTimes(r *rig) {
	root := r.as(su)
	f := root.file(r.root, "f", "data")
	root.setAttr(f, vfs.SetAttr{UID: &alice.UID, Mode: ptr(uint32(0o666))})
	set := func(c vfs.Cred, s vfs.SetAttr) error {
		_, err := r.fs.SetAttr(r.ctx, &c, f, s, nil)
		return err
	}
	now := vfs.SetAttr{AtimeHow: vfs.SetToServer, MtimeHow: vfs.SetToServer}
	one := vfs.SetAttr{MtimeHow: vfs.SetToServer}
	cut := vfs.SetAttr{Size: ptr(uint64(0)), MtimeHow: vfs.SetToServer} // what open with O_TRUNC comes to
	past := vfs.SetAttr{MtimeHow: vfs.SetToClient, Mtime: vfs.Time{Sec: 5}}
	assert.NoError(r, set(alice, past))
	assert.NoError(r, set(bob, now))
	assert.NoError(r, set(bob, one))
	assert.NoError(r, set(bob, cut))
	assert.ErrorIs(r, set(bob, past), errPerm)
	root.setAttr(f, mode(0o644))
	assert.Error(r, set(bob, now))
	assert.Error(r, set(bob, one))
	assert.ErrorIs(r, set(bob, cut), errAccess)
	assert.NoError(r, set(alice, one))
	assert.NoError(r, set(su, past))
}

// New objects belong to who made them.
func testOwnersOfNew(r *rig) {
	root := r.as(su)
	root.setAttr(r.root, mode(0o777))
	greedy := mode(0o640)
	greedy.UID, greedy.GID = &su.UID, &su.GID
	for _, c := range []vfs.Cred{alice, bob, carol, su, {UID: 0, GID: 70009}} {
		made := map[string]vfs.Made{}
		var err error
		name := func(what string) string { return fmt.Sprintf("%s-%d-%d", what, c.UID, c.GID) }
		made["file"], err = r.fs.Create(r.ctx, &c, r.root, name("file"), vfs.CreateHow{Mode: vfs.Guarded, Attr: greedy})
		require.NoError(r, err)
		made["exclusive"], err = r.fs.Create(r.ctx, &c, r.root, name("exclusive"), vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 9})
		require.NoError(r, err)
		made["dir"], err = r.fs.Mkdir(r.ctx, &c, r.root, name("dir"), mode(0o750))
		require.NoError(r, err)
		made["link"], err = r.fs.Symlink(r.ctx, &c, r.root, name("link"), "t", vfs.SetAttr{})
		require.NoError(r, err)
		made["fifo"], err = r.fs.Mknod(r.ctx, &c, r.root, name("fifo"), vfs.TypeFIFO, vfs.Dev{}, mode(0o600))
		require.NoError(r, err)
		for what, m := range made {
			assert.Equal(r, c.UID, m.Attr.UID, what)
			if what != "file" || c.UID != 0 { // root gives away as it likes
				assert.Equal(r, c.GID, m.Attr.GID, what)
			}
		}
	}
	_, err := r.fs.Create(r.ctx, &invalid, r.root, "nobody's", guarded(0o666))
	assert.ErrorIs(r, err, errAccess, "the number that means no change to the kernel")
	_, err = r.fs.Create(r.ctx, &vfs.Cred{UID: 70001, GID: 1<<32 - 1}, r.root, "nobody's", guarded(0o666))
	assert.ErrorIs(r, err, errAccess)
	_, err = r.fs.Create(r.ctx, &vfs.Cred{UID: 70001, GID: 70001, Groups: []uint32{1<<32 - 1}}, r.root, "nobody's", guarded(0o666))
	assert.ErrorIs(r, err, errAccess)

	// A directory with the set-group-ID bit hands its group on.
	d := root.dir(r.root, "shared")
	root.setAttr(d, vfs.SetAttr{GID: &alice.Groups[0], Mode: ptr(uint32(0o2777))})
	sub, err := r.fs.Mkdir(r.ctx, &carol, d, "sub", mode(0o755))
	require.NoError(r, err)
	assert.Equal(r, alice.Groups[0], sub.Attr.GID)
	assert.EqualValues(r, 0o2755, sub.Attr.Mode)
}
