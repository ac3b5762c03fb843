package vfstest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func testSetAttrMode(r *testFS) {
	for _, h := range []vfs.Handle{r.createFile(r.root, "f", ""), r.createDir(r.root, "d")} {
		for _, m := range []uint32{0, 0o777, 0o1644, 0o6755, 0o400} {
			w, err := r.fs.SetAttr(r.ctx, r.c, h, modeAttr(m), nil)
			require.NoError(r, err)
			assert.Equal(r, m, w.After.Mode)
			assert.Equal(r, m, r.getAttr(h).Mode)
		}
		w, err := r.fs.SetAttr(r.ctx, r.c, h, vfs.SetAttr{}, nil)
		require.NoError(r, err, "an empty change succeeds")
		assert.EqualValues(r, 0o400, w.After.Mode)
	}
}

func testSetAttrSize(r *testFS) {
	f := r.createFile(r.root, "f", "0123456789")
	for _, size := range []uint64{4, 0, 5000, 1 << 40, 1<<40 + 1, 3} {
		w, err := r.fs.SetAttr(r.ctx, r.c, f, vfs.SetAttr{Size: &size}, nil)
		require.NoError(r, err)
		assert.Equal(r, size, w.After.Size)
		assert.Equal(r, size, r.getAttr(f).Size)
	}
	assert.Equal(r, "\x00\x00\x00", r.readFile(f), "truncated data is gone")
	for _, size := range []uint64{1 << 63, 1<<64 - 1} {
		_, err := r.fs.SetAttr(r.ctx, r.c, f, vfs.SetAttr{Size: &size}, nil)
		assert.ErrorIs(r, err, errTooBig)
	}
	assert.EqualValues(r, 3, r.getAttr(f).Size)

	long := time.Now().Add(-time.Hour)
	old := vfs.Time{Sec: long.Unix()}
	r.setAttr(f, vfs.SetAttr{MtimeHow: vfs.SetToClient, Mtime: old})
	r.setAttr(f, vfs.SetAttr{Size: ptrTo(uint64(3))})
	assert.NotEqual(r, old, r.getAttr(f).Mtime, "setting the same size is a change")

	both := vfs.SetAttr{Size: ptrTo(uint64(1)), Mode: ptrTo(uint32(0o4711)), MtimeHow: vfs.SetToClient, Mtime: old}
	r.setAttr(f, both)
	a := r.getAttr(f)
	assert.EqualValues(r, 1, a.Size)
	assert.EqualValues(r, 0o4711, a.Mode, "the mode is set after the size, which clears bits of it")
	assert.Equal(r, old, a.Mtime, "the time is set after the size, which changes it")
}

func testSetAttrTimes(r *testFS) {
	f := r.createFile(r.root, "f", "")
	at, mt := vfs.Time{Sec: 1_700_000_000, Nsec: 123_456_789}, vfs.Time{Sec: 1, Nsec: 999_999_999}
	before := r.getAttr(f).Ctime
	r.setAttr(f, vfs.SetAttr{AtimeHow: vfs.SetToClient, Atime: at, MtimeHow: vfs.SetToClient, Mtime: mt})
	a := r.getAttr(f)
	assert.Equal(r, at, a.Atime)
	assert.Equal(r, mt, a.Mtime)
	assert.GreaterOrEqual(r, a.Ctime.Sec, before.Sec)

	start := time.Now().Add(-time.Second).Unix()
	r.setAttr(f, vfs.SetAttr{MtimeHow: vfs.SetToServer})
	a = r.getAttr(f)
	assert.Equal(r, at, a.Atime, "only the other was requested")
	assert.GreaterOrEqual(r, a.Mtime.Sec, start)
	mt = a.Mtime
	r.setAttr(f, vfs.SetAttr{AtimeHow: vfs.SetToServer})
	a = r.getAttr(f)
	assert.GreaterOrEqual(r, a.Atime.Sec, start)
	assert.Equal(r, mt, a.Mtime)

	// These values have special meanings in utimensat.
	for _, nsec := range []uint32{1e9, 1<<30 - 1, 1<<30 - 2, 1<<32 - 1} {
		_, err := r.fs.SetAttr(r.ctx, r.c, f, vfs.SetAttr{MtimeHow: vfs.SetToClient, Mtime: vfs.Time{Nsec: nsec}}, nil)
		assert.ErrorIs(r, err, errInval)
	}
	assert.Equal(r, mt, r.getAttr(f).Mtime)
}

func testSetAttrGuard(r *testFS) {
	f := r.createFile(r.root, "f", "data")
	a := r.getAttr(f)
	wrong := a.Ctime
	wrong.Nsec ^= 1
	w, err := r.fs.SetAttr(r.ctx, r.c, f, vfs.SetAttr{Size: ptrTo(uint64(0))}, &wrong)
	assert.ErrorIs(r, err, vfs.ErrNotSync)
	assert.Equal(r, a.Ctime, w.After.Ctime)
	assert.Equal(r, "data", r.readFile(f))
	_, err = r.fs.SetAttr(r.ctx, r.c, f, vfs.SetAttr{Size: ptrTo(uint64(0))}, &a.Ctime)
	require.NoError(r, err)
	assert.Zero(r, r.getAttr(f).Size)
}

func testSetAttrOwner(r *testFS) {
	root := r.asCaller(vfs.Cred{})
	m, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "x", vfs.SetAttr{})
	require.NoError(r, err)
	f := r.createFile(r.root, "f", "")
	for _, h := range []vfs.Handle{f, r.createDir(r.root, "d"), m.Handle} {
		root.setAttr(h, vfs.SetAttr{UID: &alice.UID})
		assert.Equal(r, alice.UID, r.getAttr(h).UID)
		gid := r.getAttr(h).GID
		root.setAttr(h, vfs.SetAttr{GID: ptrTo(uint32(4_000_000_000))})
		a := r.getAttr(h)
		assert.EqualValues(r, 4_000_000_000, a.GID)
		assert.Equal(r, alice.UID, a.UID)
		root.setAttr(h, vfs.SetAttr{GID: &gid})
	}
	root.setAttr(f, modeAttr(0o6755))
	root.setAttr(f, vfs.SetAttr{UID: &bob.UID})
	assert.EqualValues(r, 0o755, r.getAttr(f).Mode, "a new owner has not inherited the setuid bit")
	root.setAttr(f, vfs.SetAttr{UID: &alice.UID, Mode: ptrTo(uint32(0o4755))})
	assert.EqualValues(r, 0o4755, r.getAttr(f).Mode, "unless requested")

	_, err = r.fs.SetAttr(r.ctx, &alice, f, vfs.SetAttr{UID: &bob.UID}, nil)
	assert.ErrorIs(r, err, errPerm, "only root may change the owner")
	_, err = r.fs.SetAttr(r.ctx, &alice, f, vfs.SetAttr{GID: &bob.GID}, nil)
	assert.ErrorIs(r, err, errPerm, "a foreign group")
	_, err = r.fs.SetAttr(r.ctx, &alice, f, vfs.SetAttr{GID: &alice.Groups[0]}, nil)
	assert.NoError(r, err, "the caller's own group")
	_, err = r.fs.SetAttr(r.ctx, &bob, f, modeAttr(0o777), nil)
	assert.ErrorIs(r, err, errPerm)
}

// testWCC checks that each change returns the attributes before and after.
func testWCC(r *testFS) {
	d := r.createDir(r.root, "d")
	e := r.createDir(r.root, "e")
	f := r.createFile(d, "f", "data")
	check := func(what string, h vfs.Handle, call func() (vfs.WCC, error)) {
		r.Helper()
		before := r.getAttr(h)
		w, err := call()
		require.NoError(r, err, what)
		if w.Before.OK {
			assert.Equal(r, vfs.PreAttr{
				OK: true, Size: before.Size, Mtime: before.Mtime, Ctime: before.Ctime,
				HasChange: before.HasChange, Change: before.Change,
			}, w.Before, what)
		}
		require.True(r, w.After.OK, what)
		after := r.getAttr(h)
		w.After.Atime, after.Atime = vfs.Time{}, vfs.Time{}
		w.After.Used, after.Used = 0, 0 // storage may be allocated at writeback
		assert.Equal(r, after, w.After.Attr, what)
	}
	of := func(m vfs.Made, err error) (vfs.WCC, error) { return m.Dir, err }
	check("write", f, func() (vfs.WCC, error) {
		_, _, w, err := r.fs.Write(r.ctx, r.c, f, []byte("more"), 2, vfs.Unstable)
		return w, err
	})
	check("commit", f, func() (vfs.WCC, error) { return r.fs.Commit(r.ctx, r.c, f, 0, 0) })
	check("setattr", f, func() (vfs.WCC, error) { return r.fs.SetAttr(r.ctx, r.c, f, modeAttr(0o600), nil) })
	check("create", d, func() (vfs.WCC, error) { return of(r.fs.Create(r.ctx, r.c, d, "c", guardedCreate(0o600))) })
	check("exclusive", d, func() (vfs.WCC, error) {
		return of(r.fs.Create(r.ctx, r.c, d, "x", vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 7}))
	})
	check("mkdir", d, func() (vfs.WCC, error) { return of(r.fs.Mkdir(r.ctx, r.c, d, "m", modeAttr(0o700))) })
	check("symlink", d, func() (vfs.WCC, error) { return of(r.fs.Symlink(r.ctx, r.c, d, "s", "t", vfs.SetAttr{})) })
	check("mknod", d, func() (vfs.WCC, error) {
		return of(r.fs.Mknod(r.ctx, r.c, d, "n", vfs.TypeFIFO, vfs.Dev{}, modeAttr(0o600)))
	})
	check("link", d, func() (vfs.WCC, error) { _, w, err := r.fs.Link(r.ctx, r.c, f, d, "k"); return w, err })
	check("rename from", d, func() (vfs.WCC, error) { w, _, err := r.fs.Rename(r.ctx, r.c, d, "k", e, "k"); return w, err })
	check("rename to", d, func() (vfs.WCC, error) { _, w, err := r.fs.Rename(r.ctx, r.c, e, "k", d, "k"); return w, err })
	check("remove", d, func() (vfs.WCC, error) { return r.fs.Remove(r.ctx, r.c, d, "k") })
	check("rmdir", d, func() (vfs.WCC, error) { return r.fs.Rmdir(r.ctx, r.c, d, "m") })

	_, err := r.fs.Create(r.ctx, r.c, d, "c", guardedCreate(0o600))
	require.ErrorIs(r, err, errExist)
	w, err := r.fs.Remove(r.ctx, r.c, d, "none")
	require.ErrorIs(r, err, errNoEnt)
	assert.True(r, w.After.OK, "attributes with an error")
}

// testChange checks that no value of a change attribute comes twice, that values increase if the
// file system says so, and that the time of birth stays.
func testChange(r *testFS) {
	d := r.createDir(r.root, "d")
	f := r.createFile(d, "f", "")
	if !r.getAttr(f).HasChange {
		return // ctime must do
	}
	birth := r.getAttr(f)
	seen := map[vfs.Handle]map[uint64]bool{d: {}, f: {}}
	last := map[vfs.Handle]uint64{}
	o, ok := r.fs.(vfs.ChangeOrderer)
	ordered := ok && o.OrdersChanges()
	check := func(h vfs.Handle, what string) {
		r.Helper()
		a := r.getAttr(h)
		require.True(r, a.HasChange)
		assert.False(r, seen[h][a.Change], what)
		seen[h][a.Change] = true
		assert.True(r, !ordered || a.Change > last[h], what)
		last[h] = a.Change
		assert.Equal(r, a.Change, r.getAttr(h).Change, "nothing has changed")
	}
	for i := range 20 {
		r.writeFile(f, "x", uint64(i))
		check(f, "write")
		r.setAttr(f, modeAttr(0o600+uint32(i)%2))
		check(f, "mode")
		r.setAttr(f, vfs.SetAttr{MtimeHow: vfs.SetToClient, Mtime: vfs.Time{Sec: int64(i % 2)}})
		check(f, "time")
		r.setAttr(f, vfs.SetAttr{Size: ptrTo(uint64(i))})
		check(f, "size")
		r.createFile(d, "g", "")
		check(d, "create")
		r.renameName(d, "g", d, "h")
		check(d, "rename")
		r.removeFile(d, "h")
		check(d, "remove")
	}
	assert.Equal(r, birth.HasBirth, r.getAttr(f).HasBirth)
	assert.Equal(r, birth.Birth, r.getAttr(f).Birth)
}

func testStatFS(r *testFS) {
	f := r.createFile(r.root, "f", "")
	for _, h := range []vfs.Handle{r.root, f} {
		s, a, err := r.fs.StatFS(r.ctx, r.c, h)
		require.NoError(r, err)
		assert.True(r, a.OK)
		assert.NotZero(r, s.TotalBytes)
		assert.LessOrEqual(r, s.FreeBytes, s.TotalBytes)
		assert.LessOrEqual(r, s.AvailBytes, s.FreeBytes)
		assert.LessOrEqual(r, s.FreeFiles, s.TotalFiles)
		p, a, err := r.fs.PathConf(r.ctx, r.c, h)
		require.NoError(r, err)
		assert.True(r, a.OK)
		assert.NotZero(r, p.LinkMax)
		assert.True(r, p.NoTrunc)
		assert.True(r, p.CasePreserving)
		assert.False(r, p.CaseInsensitive)
		r.removeFile(r.root, r.nameAttr(r.createFile(r.root, strings.Repeat("n", int(p.NameMax)), "")))
	}
}

// nameAttr returns the name of an object in the root.
func (r *testFS) nameAttr(h vfs.Handle) string {
	r.Helper()
	for _, name := range r.listNames(r.root) {
		if r.lookupName(r.root, name) == h {
			return name
		}
	}
	require.Fail(r, "the object has no name")
	return ""
}
