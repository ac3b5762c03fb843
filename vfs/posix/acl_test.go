//go:build linux

package posix

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// A list for an owner with all rights, user 2000 with read, the owning group,
// and no rights for others.
var (
	sampleACL = vfs.ACL{
		{Tag: vfs.ACLUserObj, Perm: 7},
		{Tag: vfs.ACLUser, ID: 2000, Perm: 4},
		{Tag: vfs.ACLGroupObj, Perm: 5},
		{Tag: vfs.ACLMask, Perm: 5},
		{Tag: vfs.ACLOther},
	}
	plainACL = vfs.ACL{{Tag: vfs.ACLUserObj, Perm: 6}, {Tag: vfs.ACLGroupObj, Perm: 4}, {Tag: vfs.ACLOther, Perm: 4}}
)

// sampleBytes is the kernel's attribute for sampleACL.
const sampleBytes = `02000000
	0100 0700 ffffffff
	0200 0400 d0070000
	0400 0500 ffffffff
	1000 0500 ffffffff
	2000 0000 ffffffff`

func TestACLForm(t *testing.T) {
	wire := wiretest.Bytes(t, sampleBytes)
	assert.Equal(t, wire, appendACL(nil, sampleACL))
	got, err := parseACL(wire)
	require.NoError(t, err)
	assert.Equal(t, sampleACL, got)
	for n := 1; n < len(wire); n++ {
		if _, err := parseACL(wire[:n]); (n-aclHeadLen)%aclEntryLen != 0 || n < aclHeadLen {
			assert.ErrorIs(t, err, unix.EUCLEAN, "cut after %d bytes", n)
		}
	}
	wire[0] = 1
	_, err = parseACL(wire)
	assert.ErrorIs(t, err, unix.EUCLEAN, "another version")
}

// aclExportedDir returns a site in a file system that has lists, such as tmpfs.
func aclExportedDir(t *testing.T, o Options) (*exportedDir, *FS) {
	checkCleanup(t)
	s := newExportedDir(t, "/dev/shm", o)
	return s, s.open(t)
}

func aclMode(m uint32) vfs.SetAttr { return vfs.SetAttr{Mode: &m} }

// xattr reads a list of a file on the host.
func xattr(t *testing.T, path, name string) []byte {
	t.Helper()
	b := make([]byte, maxXattr)
	n, err := unix.Lgetxattr(path, name, b)
	if err == unix.ENODATA {
		return nil
	}
	require.NoError(t, err)
	return b[:n]
}

// TestHasACLs checks that file systems with and without ACLs are distinguished.
func TestHasACLs(t *testing.T) {
	_, f := aclExportedDir(t, Options{})
	assert.True(t, f.HasACLs())
	proc, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(proc)
	assert.False(t, hasACLs(proc))
}

func TestACL(t *testing.T) {
	eachKind(t, func(t *testing.T, o Options) {
		s, f := aclExportedDir(t, o)
		c := user()
		made, err := f.Create(t.Context(), &c, f.Root(), "file", vfs.CreateHow{Attr: aclMode(0o644)})
		require.NoError(t, err)
		access, def, a, err := f.GetACL(t.Context(), &c, made.Handle)
		require.NoError(t, err)
		assert.True(t, a.OK)
		assert.Nil(t, access, "the mode says all")
		assert.Nil(t, def)

		a, err = f.SetACL(t.Context(), &c, made.Handle, &sampleACL, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 0o750, a.Mode, "the list sets the mode, with the mask for the group")
		assert.Equal(t, wiretest.Bytes(t, sampleBytes), xattr(t, s.path("file"), accessACL))
		access, _, _, err = f.GetACL(t.Context(), &c, made.Handle)
		require.NoError(t, err)
		assert.Equal(t, sampleACL, access)

		_, err = f.SetACL(t.Context(), &c, made.Handle, nil, &vfs.ACL{})
		require.NoError(t, err, "a file has no default list to lose")
		_, err = f.SetACL(t.Context(), &c, made.Handle, nil, &sampleACL)
		assert.ErrorIs(t, err, unix.EACCES, "a list is refused")
		assert.NotNil(t, xattr(t, s.path("file"), accessACL), "the other list was not meant")

		a, err = f.SetACL(t.Context(), &c, made.Handle, &plainACL, nil)
		require.NoError(t, err)
		assert.EqualValues(t, 0o644, a.Mode)
		assert.Nil(t, xattr(t, s.path("file"), accessACL), "a list equal to a mode is not stored")
		_, err = f.SetACL(t.Context(), &c, made.Handle, &sampleACL, nil)
		require.NoError(t, err)
		a, err = f.SetACL(t.Context(), &c, made.Handle, &vfs.ACL{}, nil)
		require.NoError(t, err)
		assert.True(t, a.OK)
		assert.Nil(t, xattr(t, s.path("file"), accessACL), "taken away")

		_, err = f.SetACL(t.Context(), &c, made.Handle, &vfs.ACL{{Tag: vfs.ACLUser, ID: 1, Perm: 7}}, nil)
		assert.ErrorIs(t, err, unix.EINVAL, "a list without an owner")

		link, err := f.Symlink(t.Context(), &c, f.Root(), "link", "file", vfs.SetAttr{})
		require.NoError(t, err)
		access, _, _, err = f.GetACL(t.Context(), &c, link.Handle)
		require.NoError(t, err)
		assert.Nil(t, access, "links have no list")
		_, err = f.SetACL(t.Context(), &c, link.Handle, &sampleACL, nil)
		assert.ErrorIs(t, err, unix.EOPNOTSUPP)
		assert.Nil(t, xattr(t, s.path("file"), accessACL), "and lead nowhere")
	})
}

// TestACLLong checks a list longer than most.
func TestACLLong(t *testing.T) {
	_, f := aclExportedDir(t, Options{TableHandles: true})
	c := user()
	long := vfs.ACL{sampleACL[0]}
	for id := range uint32(200) {
		long = append(long, vfs.ACLEntry{Tag: vfs.ACLUser, ID: 2000 + id, Perm: 4})
	}
	long = append(long, sampleACL[2:]...)
	made, err := f.Create(t.Context(), &c, f.Root(), "file", vfs.CreateHow{})
	require.NoError(t, err)
	_, err = f.SetACL(t.Context(), &c, made.Handle, &long, nil)
	require.NoError(t, err)
	got, _, _, err := f.GetACL(t.Context(), &c, made.Handle)
	require.NoError(t, err)
	assert.Equal(t, long, got)
}

// TestACLInherited checks that the kernel applies a directory's default ACL to new objects, without
// the daemon's umask.
func TestACLInherited(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	_, f := aclExportedDir(t, Options{TableHandles: true})
	c := user()
	_, err := f.SetACL(t.Context(), &c, f.Root(), nil, &sampleACL)
	require.NoError(t, err)
	access, def, _, err := f.GetACL(t.Context(), &c, f.Root())
	require.NoError(t, err)
	assert.Nil(t, access)
	assert.Equal(t, sampleACL, def)
	file, err := f.Create(t.Context(), &c, f.Root(), "file", vfs.CreateHow{Attr: aclMode(0o666)})
	require.NoError(t, err)
	assert.EqualValues(t, 0o640, file.Attr.Mode, "the mask of the list and the requested mode")
	access, _, _, err = f.GetACL(t.Context(), &c, file.Handle)
	require.NoError(t, err)
	assert.Contains(t, access, vfs.ACLEntry{Tag: vfs.ACLUser, ID: 2000, Perm: 4})
	assert.Contains(t, access, vfs.ACLEntry{Tag: vfs.ACLMask, Perm: 4})
	dir, err := f.Mkdir(t.Context(), &c, f.Root(), "dir", aclMode(0o777))
	require.NoError(t, err)
	_, def, _, err = f.GetACL(t.Context(), &c, dir.Handle)
	require.NoError(t, err)
	assert.Equal(t, sampleACL, def, "handed on to directories")
}

// TestACLRights checks that only the owner sets a list, and that the list
// applies at once to callers that have the file open.
func TestACLRights(t *testing.T) {
	vfstest.NeedRoot(t)
	s, f := aclExportedDir(t, Options{})
	c, other := user(), vfs.Cred{UID: 2000, GID: 2000}
	made, err := f.Create(t.Context(), &c, f.Root(), "file", vfs.CreateHow{Attr: aclMode(0o600)})
	require.NoError(t, err)
	read := func() error {
		_, _, _, err := f.Read(t.Context(), &other, made.Handle, make([]byte, 1), 0)
		return err
	}
	_, err = f.SetACL(t.Context(), &other, made.Handle, &sampleACL, nil)
	assert.ErrorIs(t, err, unix.EPERM)
	assert.Nil(t, xattr(t, s.path("file"), accessACL))
	barred := vfs.ACL{sampleACL[0], {Tag: vfs.ACLUser, ID: 2000}, sampleACL[2], sampleACL[3], sampleACL[4]}
	for range 20 { // even within one tick of the clock
		assert.ErrorIs(t, read(), unix.EACCES)
		_, err = f.SetACL(t.Context(), &c, made.Handle, &sampleACL, nil)
		require.NoError(t, err)
		assert.NoError(t, read(), "user 2000 may read")
		got, _, err := f.Access(t.Context(), &other, made.Handle, vfs.AccessRead|vfs.AccessModify)
		require.NoError(t, err)
		assert.Equal(t, vfs.AccessRead, got)
		_, err = f.SetACL(t.Context(), &c, made.Handle, &barred, nil)
		require.NoError(t, err)
		got, _, err = f.Access(t.Context(), &other, made.Handle, vfs.AccessRead)
		require.NoError(t, err)
		assert.Zero(t, got)
	}
	_, err = f.SetACL(t.Context(), &c, made.Handle, &sampleACL, nil)
	require.NoError(t, err)
	// If the clock of the kernel's times is fine-grained, the times would show
	// the change anyway.
	o, err := f.getObject(made.Handle)
	require.NoError(t, err)
	require.NotEmpty(t, o.verdicts)
	for _, v := range o.verdicts {
		assert.Zero(t, v.asked, "the cached verdict was dropped")
	}
	f.putObject(o)
	require.NoError(t, os.Remove(s.path("file")))
	_, _, _, err = f.GetACL(t.Context(), &c, made.Handle)
	assert.ErrorIs(t, err, unix.ESTALE)
	_, err = f.SetACL(t.Context(), &c, made.Handle, &sampleACL, nil)
	assert.ErrorIs(t, err, unix.ESTALE)
}

// FuzzACL checks that any attribute is parsed without harm, and that a parsed
// list is written back the same, except for meaningless ids.
func FuzzACL(f *testing.F) {
	f.Add(wiretest.Bytes(f, sampleBytes))
	f.Add([]byte{2, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseACL(b)
		if err != nil || len(b) == 0 {
			return
		}
		again, err := parseACL(appendACL(nil, a))
		require.NoError(t, err)
		assert.Equal(t, a, again)
	})
}
