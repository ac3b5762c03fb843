package workload

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// runAs runs f with a user's file access rights. It needs root.
func runAs(t *T, uid, gid int, groups []uint32, f func(t *T)) {
	err := runChecks(func(t *T) {
		// Linux keeps credentials per thread. This thread stays locked, so that
		// it ends with the goroutine and no other goroutine inherits its
		// credentials.
		runtime.LockOSThread()
		var first unsafe.Pointer
		if len(groups) > 0 {
			first = unsafe.Pointer(&groups[0])
		}
		_, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)
		require.Zero(t, errno)
		_, err := unix.SetfsgidRetGid(gid)
		require.NoError(t, err)
		_, err = unix.SetfsuidRetUid(uid)
		require.NoError(t, err)
		f(t)
	})
	require.NoError(t, err, "as %d:%d %v", uid, gid, groups)
}

// testAccess asserts that file owner, group and mode apply to every user.
func testAccess(t *T, dir string) {
	p := pathIn(dir)
	const uid, gid, group = 1000, 1001, 2000
	file := func(name string, mode uint32, owner, group int) {
		createFile(t, p(name), []byte("secret"))
		require.NoError(t, os.Chown(p(name), owner, group))
		require.NoError(t, unix.Chmod(p(name), mode))
	}
	file("root", 0o600, 0, 0)
	file("mine", 0o600, uid, gid)
	file("mygroup", 0o060, 0, gid)
	file("othergroup", 0o640, 0, group)
	file("all", 0o004, 0, 0)
	file("suid", 0o4777, 0, 0)
	for name, mode := range map[string]uint32{"closed": 0o700, "through": 0o711, "sticky": 0o1777, "setgid": 0o2777} {
		require.NoError(t, os.Mkdir(p(name), 0o700))
		createFile(t, p(name+"/file"), []byte("below"))
		require.NoError(t, unix.Chmod(p(name), mode))
	}
	require.NoError(t, os.Chown(p("setgid"), 0, group))

	runAs(t, uid, gid, nil, func(t *T) {
		checkDenied(t, p("root"), os.O_RDONLY)
		checkDenied(t, p("root"), os.O_WRONLY)
		checkAllowed(t, p("mine"), os.O_RDWR)
		checkAllowed(t, p("mygroup"), os.O_RDWR)
		checkDenied(t, p("othergroup"), os.O_RDONLY)
		checkAllowed(t, p("all"), os.O_RDONLY)
		checkDenied(t, p("all"), os.O_WRONLY)
		checkDenied(t, p("closed/file"), os.O_RDONLY)
		checkAllowed(t, p("through/file"), os.O_RDONLY)
		_, err := os.ReadDir(p("through"))
		assert.ErrorIs(t, err, syscall.EACCES)
		assert.ErrorIs(t, os.Remove(p("sticky/file")), syscall.EPERM)
		assert.ErrorIs(t, os.Remove(p("through/file")), syscall.EACCES)
		assert.ErrorIs(t, os.Mkdir(p("new"), 0o755), syscall.EACCES)
		assert.ErrorIs(t, os.Chown(p("mine"), 0, 0), syscall.EPERM)
		assert.ErrorIs(t, unix.Chmod(p("root"), 0o777), syscall.EPERM)

		createFile(t, p("sticky/new"), []byte("n"))
		createFile(t, p("setgid/new"), []byte("n"))
		assert.NoError(t, os.Mkdir(p("setgid/dir"), 0o755))
		f, err := os.OpenFile(p("suid"), os.O_WRONLY, 0)
		if assert.NoError(t, err) {
			_, err = f.Write([]byte("another writes"))
			assert.NoError(t, err)
			assert.NoError(t, f.Close())
		}
	})
	runAs(t, uid, gid, []uint32{3, group}, func(t *T) {
		checkAllowed(t, p("othergroup"), os.O_RDONLY)
		checkDenied(t, p("othergroup"), os.O_WRONLY)
		assert.NoError(t, os.Chown(p("mine"), -1, group), "to a group of one's own")
	})
	for name, want := range map[string][2]uint32{
		"sticky/new": {uid, gid}, "setgid/new": {uid, group}, "setgid/dir": {uid, group}, "mine": {uid, group},
	} {
		s := lstat(t, p(name))
		assert.Equal(t, want, [2]uint32{s.Uid, s.Gid}, name)
	}
	assert.Zero(t, lstat(t, p("suid")).Mode&unix.S_ISUID, "a write by another user clears it")
	assert.NotZero(t, lstat(t, p("setgid/dir")).Mode&unix.S_ISGID)
}

func checkDenied(t *T, path string, flag int) {
	f, err := os.OpenFile(path, flag, 0)
	if !assert.ErrorIs(t, err, syscall.EACCES) {
		f.Close()
	}
}

func checkAllowed(t *T, path string, flag int) {
	f, err := os.OpenFile(path, flag, 0)
	if assert.NoError(t, err) {
		f.Close()
	}
}
