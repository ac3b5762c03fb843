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

// as runs f with the rights of a user on files. It needs root.
func as(t *T, uid, gid int, groups []uint32, f func(t *T)) {
	err := check(func(t *T) {
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

// access asserts that owner, group and mode of files apply to every user.
func access(t *T, dir string) {
	p := in(dir)
	const uid, gid, group = 1000, 1001, 2000
	file := func(name string, mode uint32, owner, group int) {
		create(t, p(name), []byte("secret"))
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
		create(t, p(name+"/file"), []byte("below"))
		require.NoError(t, unix.Chmod(p(name), mode))
	}
	require.NoError(t, os.Chown(p("setgid"), 0, group))

	as(t, uid, gid, nil, func(t *T) {
		denied(t, p("root"), os.O_RDONLY)
		denied(t, p("root"), os.O_WRONLY)
		allowed(t, p("mine"), os.O_RDWR)
		allowed(t, p("mygroup"), os.O_RDWR)
		denied(t, p("othergroup"), os.O_RDONLY)
		allowed(t, p("all"), os.O_RDONLY)
		denied(t, p("all"), os.O_WRONLY)
		denied(t, p("closed/file"), os.O_RDONLY)
		allowed(t, p("through/file"), os.O_RDONLY)
		_, err := os.ReadDir(p("through"))
		assert.ErrorIs(t, err, syscall.EACCES)
		assert.ErrorIs(t, os.Remove(p("sticky/file")), syscall.EPERM)
		assert.ErrorIs(t, os.Remove(p("through/file")), syscall.EACCES)
		assert.ErrorIs(t, os.Mkdir(p("new"), 0o755), syscall.EACCES)
		assert.ErrorIs(t, os.Chown(p("mine"), 0, 0), syscall.EPERM)
		assert.ErrorIs(t, unix.Chmod(p("root"), 0o777), syscall.EPERM)

		create(t, p("sticky/new"), []byte("n"))
		create(t, p("setgid/new"), []byte("n"))
		assert.NoError(t, os.Mkdir(p("setgid/dir"), 0o755))
		f, err := os.OpenFile(p("suid"), os.O_WRONLY, 0)
		if assert.NoError(t, err) {
			_, err = f.Write([]byte("another writes"))
			assert.NoError(t, err)
			assert.NoError(t, f.Close())
		}
	})
	as(t, uid, gid, []uint32{3, group}, func(t *T) {
		allowed(t, p("othergroup"), os.O_RDONLY)
		denied(t, p("othergroup"), os.O_WRONLY)
		assert.NoError(t, os.Chown(p("mine"), -1, group), "to a group of one's own")
	})
	for name, want := range map[string][2]uint32{
		"sticky/new": {uid, gid}, "setgid/new": {uid, group}, "setgid/dir": {uid, group}, "mine": {uid, group},
	} {
		s := stat(t, p(name))
		assert.Equal(t, want, [2]uint32{s.Uid, s.Gid}, name)
	}
	assert.Zero(t, stat(t, p("suid")).Mode&unix.S_ISUID, "a write by another user clears it")
	assert.NotZero(t, stat(t, p("setgid/dir")).Mode&unix.S_ISGID)
}

func denied(t *T, path string, flag int) {
	f, err := os.OpenFile(path, flag, 0)
	if !assert.ErrorIs(t, err, syscall.EACCES) {
		f.Close()
	}
}

func allowed(t *T, path string, flag int) {
	f, err := os.OpenFile(path, flag, 0)
	if assert.NoError(t, err) {
		f.Close()
	}
}
