package vfstest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// Callers unknown on any host, the superuser, and the invalid ID.
var (
	alice   = vfs.Cred{UID: 70001, GID: 70001, Groups: []uint32{70100, 70101}}
	bob     = vfs.Cred{UID: 70002, GID: 70002, Groups: groupList(40)}
	carol   = vfs.Cred{UID: 70003, GID: 70003}
	su      = vfs.Cred{}
	invalid = vfs.Cred{UID: 1<<32 - 1, GID: 1<<32 - 1}
)

// groupList returns n groups. The last one is also alice's.
func groupList(n int) (g []uint32) {
	for i := range uint32(n - 1) {
		g = append(g, 71000+i)
	}
	return append(g, alice.Groups[0])
}

// accessMask returns the access mask that three bits of a mode grant.
func accessMask(bits uint32) (mask uint32) {
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

// testRights checks that Access, Read and Write follow the mode for owner,
// group and others.
func testRights(r *testFS) {
	root := r.asCaller(su)
	for _, m := range []uint32{0o000, 0o400, 0o200, 0o100, 0o040, 0o020, 0o010, 0o004, 0o002, 0o001, 0o640, 0o604, 0o070, 0o077, 0o007, 0o777, 0o123} {
		f := root.createFile(r.root, fmt.Sprintf("f%o", m), "data")
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
			assert.Equal(r, accessMask(bits), got, what)
			got, _, err = r.fs.Access(r.ctx, &who.c, f, vfs.AccessRead)
			require.NoError(r, err)
			assert.Equal(r, accessMask(bits)&vfs.AccessRead, got, what)

			// The owner may read and write regardless of the mode, and execute
			// permission allows reading (RFC 1813, Section 4.4).
			owner := who.name == "owner"
			n, _, _, err := r.fs.Read(r.ctx, &who.c, f, make([]byte, 4), 0)
			assertMay(r, err, owner || bits&5 != 0, "reading: "+what)
			assert.Equal(r, err == nil, n == 4)
			_, _, _, err = r.fs.Write(r.ctx, &who.c, f, []byte("data"), 0, vfs.Unstable)
			assertMay(r, err, owner || bits&2 != 0, "writing: "+what)
			_, err = r.fs.Commit(r.ctx, &who.c, f, 0, 0)
			assertMay(r, err, owner || bits&2 != 0, "committing: "+what)
			_, err = r.fs.SetAttr(r.ctx, &who.c, f, vfs.SetAttr{Size: ptrTo(uint64(4))}, nil)
			assertMay(r, err, owner || bits&2 != 0, "truncating: "+what)
		}
	}
}

// assertMay asserts that err is nil if yes is set, and otherwise that it is EACCES.
func assertMay(r *testFS, err error, yes bool, what string) {
	r.Helper()
	if yes {
		assert.NoError(r, err, what)
	} else {
		assert.ErrorIs(r, err, errAccess, what)
	}
}

// testRightsChange checks that a permission change takes effect at once, even
// if the file is open.
func testRightsChange(r *testFS) {
	root := r.asCaller(su)
	f := root.createFile(r.root, "f", "data")
	root.setAttr(f, modeAttr(0o666))
	check := func(yes bool, what string) {
		r.Helper()
		_, _, _, err := r.fs.Read(r.ctx, &bob, f, make([]byte, 4), 0)
		assertMay(r, err, yes, "reading "+what)
		_, _, _, err = r.fs.Write(r.ctx, &bob, f, []byte("data"), 0, vfs.Unstable)
		assertMay(r, err, yes, "writing "+what)
	}
	check(true, "rights of others")
	root.setAttr(f, modeAttr(0o660))
	check(false, "rights that root removed")
	root.setAttr(f, vfs.SetAttr{GID: &bob.Groups[3]})
	check(true, "rights of the caller's group")
	root.setAttr(f, vfs.SetAttr{GID: &carol.GID})
	check(false, "rights of another group")
	root.setAttr(f, vfs.SetAttr{UID: &bob.UID})
	check(true, "the caller's own file")
}

// testRightsOwner checks that the set-user-ID and set-group-ID bits do not
// survive a write or truncation by another ordinary user.
func testRightsOwner(r *testFS) {
	root := r.asCaller(su)
	f := root.createFile(r.root, "f", "data")
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
			_, err := r.fs.SetAttr(r.ctx, c, f, vfs.SetAttr{Size: ptrTo(uint64(1))}, nil)
			return err
		}, 0o777},
		{"a write by root", su, func(c *vfs.Cred) error {
			_, _, _, err := r.fs.Write(r.ctx, c, f, []byte("x"), 0, vfs.Unstable)
			return err
		}, 0o6777},
	} {
		root.setAttr(f, vfs.SetAttr{UID: &alice.UID, Mode: ptrTo(uint32(0o6777))})
		require.NoError(r, tt.call(&tt.c), tt.name)
		assert.Equal(r, tt.want, r.getAttr(f).Mode, tt.name)
	}
	// The set-group-ID bit without group execution grants no such right.
	root.setAttr(f, vfs.SetAttr{UID: &alice.UID, GID: &alice.Groups[0], Mode: ptrTo(uint32(0o2666))})
	_, _, _, err := r.fs.Write(r.ctx, &bob, f, []byte("x"), 0, vfs.Unstable)
	require.NoError(r, err)
	assert.EqualValues(r, 0o2666, r.getAttr(f).Mode, "a write by a group member")
}

// testRightsDir checks that operations in a directory follow its mode.
func testRightsDir(r *testFS) {
	root := r.asCaller(su)
	d := root.createDir(r.root, "d")
	root.setAttr(d, vfs.SetAttr{UID: &alice.UID, GID: &alice.Groups[0]})
	f := root.createFile(d, "f", "")
	root.setAttr(f, vfs.SetAttr{UID: &carol.UID})
	for m := range uint32(8) {
		root.setAttr(d, modeAttr(m<<3))
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
			assertMay(r, err, look, "looking up "+name+": "+what)
		}
		_, _, _, err = r.fs.ReadDir(r.ctx, &bob, d, 0, 0, false, func(*vfs.Entry) bool { return true })
		assertMay(r, err, m&4 != 0, "listing: "+what)
		handles := 0
		if _, _, _, err = r.fs.ReadDir(r.ctx, &bob, d, 0, 0, true, func(e *vfs.Entry) bool {
			if string(e.Name) == "f" && e.HasHandle {
				handles++
			}
			return true
		}); err == nil {
			assert.Equal(r, look, handles == 1, "handles for a caller without search permission: %s", what)
		}
		_, err = r.fs.Create(r.ctx, &bob, d, "new", guardedCreate(0o600))
		assertMay(r, err, change, "creating: "+what)
		_, _, err = r.fs.Link(r.ctx, &carol, f, d, "link")
		assertMay(r, err, false, "linking: "+what)
		_, _, err = r.fs.Rename(r.ctx, &bob, d, "f", d, "g")
		assertMay(r, err, change, "renaming: "+what)
		if change {
			_, _, err = r.fs.Rename(r.ctx, &bob, d, "g", d, "f")
			require.NoError(r, err)
			_, err = r.fs.Remove(r.ctx, &bob, d, "new")
			require.NoError(r, err)
		} else {
			_, err = r.fs.Remove(r.ctx, &bob, d, "f")
			assertMay(r, err, false, "removing: "+what)
		}
		_, err = r.fs.GetAttr(r.ctx, &bob, f)
		assert.NoError(r, err, "any holder of the handle gets attributes")
	}
	root.setAttr(d, modeAttr(0o1777))
	_, err := r.fs.Remove(r.ctx, &bob, d, "f")
	assert.ErrorIs(r, err, errPerm, "another user's file in a sticky directory")
}

// testRightsTimes checks that a caller with write permission may set times to
// now, and that only the owner and root may set other times.
func testRightsTimes(r *testFS) {
	root := r.asCaller(su)
	f := root.createFile(r.root, "f", "data")
	root.setAttr(f, vfs.SetAttr{UID: &alice.UID, Mode: ptrTo(uint32(0o666))})
	set := func(c vfs.Cred, s vfs.SetAttr) error {
		_, err := r.fs.SetAttr(r.ctx, &c, f, s, nil)
		return err
	}
	now := vfs.SetAttr{AtimeHow: vfs.SetToServer, MtimeHow: vfs.SetToServer}
	one := vfs.SetAttr{MtimeHow: vfs.SetToServer}
	cut := vfs.SetAttr{Size: ptrTo(uint64(0)), MtimeHow: vfs.SetToServer} // as open with O_TRUNC does
	past := vfs.SetAttr{MtimeHow: vfs.SetToClient, Mtime: vfs.Time{Sec: 5}}
	assert.NoError(r, set(alice, past))
	assert.NoError(r, set(bob, now))
	assert.NoError(r, set(bob, one))
	assert.NoError(r, set(bob, cut))
	assert.ErrorIs(r, set(bob, past), errPerm)
	root.setAttr(f, modeAttr(0o644))
	assert.Error(r, set(bob, now))
	assert.Error(r, set(bob, one))
	assert.ErrorIs(r, set(bob, cut), errAccess)
	assert.NoError(r, set(alice, one))
	assert.NoError(r, set(su, past))
}

// testOwnersOfNew checks that a new object belongs to its creator.
func testOwnersOfNew(r *testFS) {
	root := r.asCaller(su)
	root.setAttr(r.root, modeAttr(0o777))
	greedy := modeAttr(0o640)
	greedy.UID, greedy.GID = &su.UID, &su.GID
	for _, c := range []vfs.Cred{alice, bob, carol, su, {UID: 0, GID: 70009}} {
		made := map[string]vfs.Made{}
		var err error
		name := func(what string) string { return fmt.Sprintf("%s-%d-%d", what, c.UID, c.GID) }
		made["file"], err = r.fs.Create(r.ctx, &c, r.root, name("file"), vfs.CreateHow{Mode: vfs.Guarded, Attr: greedy})
		require.NoError(r, err)
		made["exclusive"], err = r.fs.Create(r.ctx, &c, r.root, name("exclusive"), vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 9})
		require.NoError(r, err)
		made["dir"], err = r.fs.Mkdir(r.ctx, &c, r.root, name("dir"), modeAttr(0o750))
		require.NoError(r, err)
		made["link"], err = r.fs.Symlink(r.ctx, &c, r.root, name("link"), "t", vfs.SetAttr{})
		require.NoError(r, err)
		made["fifo"], err = r.fs.Mknod(r.ctx, &c, r.root, name("fifo"), vfs.TypeFIFO, vfs.Dev{}, modeAttr(0o600))
		require.NoError(r, err)
		for what, m := range made {
			assert.Equal(r, c.UID, m.Attr.UID, what)
			if what != "file" || c.UID != 0 { // root may give the file away
				assert.Equal(r, c.GID, m.Attr.GID, what)
			}
		}
	}
	_, err := r.fs.Create(r.ctx, &invalid, r.root, "nobody's", guardedCreate(0o666))
	assert.ErrorIs(r, err, errAccess, "the kernel takes this number as no change")
	_, err = r.fs.Create(r.ctx, &vfs.Cred{UID: 70001, GID: 1<<32 - 1}, r.root, "nobody's", guardedCreate(0o666))
	assert.ErrorIs(r, err, errAccess)
	_, err = r.fs.Create(r.ctx, &vfs.Cred{UID: 70001, GID: 70001, Groups: []uint32{1<<32 - 1}}, r.root, "nobody's", guardedCreate(0o666))
	assert.ErrorIs(r, err, errAccess)

	// New objects in a directory with the set-group-ID bit inherit the group.
	d := root.createDir(r.root, "shared")
	root.setAttr(d, vfs.SetAttr{GID: &alice.Groups[0], Mode: ptrTo(uint32(0o2777))})
	sub, err := r.fs.Mkdir(r.ctx, &carol, d, "sub", modeAttr(0o755))
	require.NoError(r, err)
	assert.Equal(r, alice.Groups[0], sub.Attr.GID)
	assert.EqualValues(r, 0o2755, sub.Attr.Mode)
}
