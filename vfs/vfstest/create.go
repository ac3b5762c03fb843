package vfstest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/vfs"
)

func testCreate(r *testFS) {
	m, err := r.fs.Create(r.ctx, r.c, r.root, "f", guardedCreate(0o666))
	require.NoError(r, err)
	require.True(r, m.Attr.OK)
	assert.Equal(r, r.getAttr(m.Handle), m.Attr.Attr)
	assert.Equal(r, vfs.TypeReg, m.Attr.Type)
	assert.EqualValues(r, 0o666, m.Attr.Mode, "the requested mode, for any umask")
	assert.EqualValues(r, 1, m.Attr.Nlink)
	assert.Equal(r, r.c.UID, m.Attr.UID)
	assert.Zero(r, m.Attr.Size)

	_, err = r.fs.Create(r.ctx, r.c, r.root, "f", guardedCreate(0o666))
	assert.ErrorIs(r, err, errExist)

	// Unchecked accepts an existing file and applies only the size.
	r.writeFile(m.Handle, "contents", 0)
	how := vfs.CreateHow{Mode: vfs.Unchecked, Attr: modeAttr(0o600)}
	again, err := r.fs.Create(r.ctx, r.c, r.root, "f", how)
	require.NoError(r, err)
	assert.Equal(r, m.Handle, again.Handle)
	assert.EqualValues(r, 0o666, again.Attr.Mode)
	assert.Equal(r, "contents", r.readFile(m.Handle))
	how.Attr.Size = ptrTo(uint64(3))
	again, err = r.fs.Create(r.ctx, r.c, r.root, "f", how)
	require.NoError(r, err)
	assert.EqualValues(r, 3, again.Attr.Size)
	assert.Equal(r, "con", r.readFile(m.Handle))

	// A new file gets the mode, size and times of the call.
	attr := modeAttr(0o444)
	attr.Size = ptrTo(uint64(10))
	attr.MtimeHow, attr.Mtime = vfs.SetToClient, vfs.Time{Sec: 1e9, Nsec: 123456789}
	for name, mode := range map[string]vfs.CreateMode{"g": vfs.Guarded, "u": vfs.Unchecked} {
		m, err = r.fs.Create(r.ctx, r.c, r.root, name, vfs.CreateHow{Mode: mode, Attr: attr})
		require.NoError(r, err)
		assert.EqualValues(r, 0o444, m.Attr.Mode)
		assert.EqualValues(r, 10, m.Attr.Size)
		assert.Equal(r, attr.Mtime, m.Attr.Mtime)
	}

	// As on Linux's server, an existing object other than a file is returned unchanged. A
	// directory is rejected, because Linux's client may crash.
	link, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "f", vfs.SetAttr{})
	require.NoError(r, err)
	m, err = r.fs.Create(r.ctx, r.c, r.root, "l", how)
	require.NoError(r, err)
	assert.Equal(r, link.Handle, m.Handle)
	r.createDir(r.root, "d")
	_, err = r.fs.Create(r.ctx, r.c, r.root, "d", how)
	assert.ErrorIs(r, err, errIsDir)
}

func testCreateExclusive(r *testFS) {
	for _, v := range []uint64{1, 0, 1<<64 - 1, 1 << 63, 0x80000000, 0xdeadbeef_cafebabe} {
		how := vfs.CreateHow{Mode: vfs.Exclusive, Verifier: v}
		m, err := r.fs.Create(r.ctx, r.c, r.root, "x", how)
		require.NoError(r, err)
		again, err := r.fs.Create(r.ctx, r.c, r.root, "x", how)
		require.NoError(r, err, "a retry finds its file, verifier %#x", v)
		assert.Equal(r, m.Handle, again.Handle)
		for bit := range 64 {
			how.Verifier = v ^ 1<<bit
			_, err = r.fs.Create(r.ctx, r.c, r.root, "x", how)
			assert.ErrorIs(r, err, errExist, "another caller's file, verifier %#x", how.Verifier)
		}
		r.removeFile(r.root, "x")
	}
	how := vfs.CreateHow{Mode: vfs.Exclusive, Verifier: 42}
	m, err := r.fs.Create(r.ctx, r.c, r.root, "x", how)
	require.NoError(r, err)
	r.restartFS(true)
	again, err := r.fs.Create(r.ctx, r.c, r.root, "x", how)
	require.NoError(r, err, "a retry, perhaps after the server was killed")
	assert.Equal(r, m.Handle, again.Handle)

	// The client completes an exclusive create by setting the attributes.
	r.setAttr(m.Handle, vfs.SetAttr{Mode: ptrTo(uint32(0o640)), AtimeHow: vfs.SetToServer, MtimeHow: vfs.SetToServer})
	_, err = r.fs.Create(r.ctx, r.c, r.root, "x", how)
	assert.ErrorIs(r, err, errExist)
	r.createDir(r.root, "d")
	_, err = r.fs.Create(r.ctx, r.c, r.root, "d", how)
	assert.ErrorIs(r, err, errExist)
}

func testMkdir(r *testFS) {
	m, err := r.fs.Mkdir(r.ctx, r.c, r.root, "d", modeAttr(0o777))
	require.NoError(r, err)
	assert.Equal(r, r.getAttr(m.Handle), m.Attr.Attr)
	assert.Equal(r, vfs.TypeDir, m.Attr.Type)
	assert.EqualValues(r, 0o777, m.Attr.Mode)
	_, err = r.fs.Mkdir(r.ctx, r.c, r.root, "d", modeAttr(0o777))
	assert.ErrorIs(r, err, errExist)
	m, err = r.fs.Mkdir(r.ctx, r.c, r.root, "sticky", modeAttr(0o1770))
	require.NoError(r, err)
	assert.EqualValues(r, 0o1770, m.Attr.Mode)
	_, err = r.fs.Mkdir(r.ctx, r.c, r.createFile(r.root, "f", ""), "d", modeAttr(0o777))
	assert.ErrorIs(r, err, errNotDir)
}

func testSymlink(r *testFS) {
	for i, target := range []string{"/etc/passwd", "../..", "\xff\x80 \n", strings.Repeat("x/", 2047), "x"} {
		name := string(rune('a' + i))
		m, err := r.fs.Symlink(r.ctx, r.c, r.root, name, target, modeAttr(0o777))
		require.NoError(r, err)
		assert.Equal(r, vfs.TypeLnk, m.Attr.Type)
		assert.EqualValues(r, len(target), m.Attr.Size)
		got, a, err := r.fs.ReadLink(r.ctx, r.c, r.lookupName(r.root, name))
		require.NoError(r, err)
		assert.Equal(r, target, got)
		assert.Equal(r, vfs.TypeLnk, a.Type)
		_, _, _, err = r.fs.Lookup(r.ctx, r.c, m.Handle, "x")
		assert.ErrorIs(r, err, errNotDir, "links are not followed")
	}
	_, err := r.fs.Symlink(r.ctx, r.c, r.root, "a", "t", vfs.SetAttr{})
	assert.ErrorIs(r, err, errExist)
	_, err = r.fs.Symlink(r.ctx, r.c, r.root, "new", "a\x00b", vfs.SetAttr{})
	assert.ErrorIs(r, err, errInval)
	_, err = r.fs.Symlink(r.ctx, r.c, r.root, "new", strings.Repeat("x", 5000), vfs.SetAttr{})
	assert.ErrorIs(r, err, errNameLong)

	for _, h := range []vfs.Handle{r.root, r.createFile(r.root, "f", "")} {
		_, a, err := r.fs.ReadLink(r.ctx, r.c, h)
		assert.ErrorIs(r, err, errInval)
		assert.True(r, a.OK)
	}
}

func testSymlinkTimes(r *testFS) {
	f := r.createFile(r.root, "f", "")
	m, err := r.fs.Symlink(r.ctx, r.c, r.root, "l", "f", vfs.SetAttr{})
	require.NoError(r, err)
	when := vfs.Time{Sec: 86400, Nsec: 5000}
	r.setAttr(m.Handle, vfs.SetAttr{Mode: ptrTo(uint32(0o600)), MtimeHow: vfs.SetToClient, Mtime: when})
	assert.Equal(r, when, r.getAttr(m.Handle).Mtime, "times of the link itself")
	assert.NotEqual(r, when, r.getAttr(f).Mtime)
	assert.EqualValues(r, 0o644, r.getAttr(f).Mode)
}

func testSpecial(r *testFS) {
	for name, typ := range map[string]vfs.Type{"fifo": vfs.TypeFIFO, "sock": vfs.TypeSock} {
		m, err := r.fs.Mknod(r.ctx, r.c, r.root, name, typ, vfs.Dev{Major: 9, Minor: 9}, modeAttr(0o622))
		require.NoError(r, err)
		assert.Equal(r, typ, m.Attr.Type)
		assert.EqualValues(r, 0o622, m.Attr.Mode)
		assert.Equal(r, m.Handle, r.lookupName(r.root, name))
		r.setAttr(m.Handle, modeAttr(0o600))
		assert.EqualValues(r, 0o600, r.getAttr(m.Handle).Mode)
		_, _, _, err = r.fs.Read(r.ctx, r.c, m.Handle, make([]byte, 1), 0)
		assert.ErrorIs(r, err, errInval, "and it does not wait for a writer")
		_, err = r.fs.Mknod(r.ctx, r.c, r.root, name, typ, vfs.Dev{}, modeAttr(0o622))
		assert.ErrorIs(r, err, errExist)
	}
	for _, typ := range []vfs.Type{vfs.TypeReg, vfs.TypeDir, vfs.TypeLnk, 0, 99} {
		_, err := r.fs.Mknod(r.ctx, r.c, r.root, "new", typ, vfs.Dev{}, modeAttr(0o600))
		assert.ErrorIs(r, err, vfs.ErrBadType)
	}
}

func testDevices(r *testFS) {
	root := r.asCaller(vfs.Cred{})
	for typ, dev := range map[vfs.Type]vfs.Dev{vfs.TypeChr: {Major: 1, Minor: 3}, vfs.TypeBlk: {Major: 4095, Minor: 1<<20 - 1}} {
		name := string(rune('a' + typ))
		m, err := r.fs.Mknod(r.ctx, root.c, r.root, name, typ, dev, modeAttr(0o640))
		require.NoError(r, err)
		assert.Equal(r, typ, m.Attr.Type)
		assert.Equal(r, dev, m.Attr.Rdev)
		_, err = r.fs.Mknod(r.ctx, &alice, r.root, "hers", typ, dev, modeAttr(0o640))
		assert.Error(r, err, "only root may make devices")
		for _, big := range []vfs.Dev{{Major: 4096}, {Minor: 1 << 20}} {
			_, err = r.fs.Mknod(r.ctx, root.c, r.root, "big", typ, big, modeAttr(0o640))
			assert.ErrorIs(r, err, errInval)
		}
	}
}
