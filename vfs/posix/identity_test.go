//go:build linux

package posix

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/vfstest"
)

// tryEnv makes this test's program act as a user who tries files.
const tryEnv = "NFSRDMA_TEST_TRY"

// tryAll returns this process's rights to the files of a directory: the sum of
// R_OK, W_OK and, for executable files, X_OK.
func tryAll(dir string) map[string]uint32 {
	out := make(map[string]uint32)
	ents, _ := os.ReadDir(dir)
	for _, e := range ents {
		name, got := dir+"/"+e.Name(), uint32(0)
		for mode, flags := range map[uint32]int{unix.R_OK: unix.O_RDONLY, unix.W_OK: unix.O_WRONLY} {
			if fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0); err == nil {
				_ = unix.Close(fd)
				got |= mode
			}
		}
		// For an empty file, or one that the server has open, exec fails only
		// after the check of permission.
		if err := unix.Exec(name, []string{name}, nil); err == unix.ENOEXEC || err == unix.ETXTBSY {
			got |= unix.X_OK
		}
		out[e.Name()] = got
	}
	return out
}

// installed copies this test's program to a place from which all users can run
// it.
func installed(t *testing.T, name string) string {
	exe, err := os.Executable()
	require.NoError(t, err)
	b, err := os.ReadFile(exe)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, b, 0o755))
	return name
}

// tryAs returns the result of tryAll in a process that c runs.
func tryAs(t *testing.T, exe, dir string, c vfs.Cred) (got map[string]uint32) {
	cmd := exec.Command(exe)
	cmd.Env = []string{tryEnv + "=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.UID, Gid: c.GID, Groups: c.Groups}}
	out, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &got))
	return got
}

// acl returns a value of system.posix_acl_access, with tag, permissions and id
// of each entry.
func acl(entries ...[3]uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
	}
	return b
}

const (
	aclUserObj  = 1
	aclUser     = 2
	aclGroupObj = 4
	aclGroup    = 8
	aclMask     = 16
	aclOther    = 32
	aclNone     = 1<<32 - 1
)

// TestAccessAsLocally checks that Access gives the same answers as the kernel
// gives a local process of the caller, for many modes, groups and access
// control lists.
func TestAccessAsLocally(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	// Processes of all users must be able to reach the files and this program.
	s := newExportedDir(t, "/dev/shm", Options{})
	require.NoError(t, os.Chmod(s.path(".."), 0o755))
	require.NoError(t, os.Chmod(s.dir, 0o755))
	exe := installed(t, s.path("..", "try"))
	f := s.open(t)

	alice := vfs.Cred{UID: 70001, GID: 70001, Groups: []uint32{70100, 70101}}
	callers := []vfs.Cred{{}, {GID: 70100}, alice, {UID: 70002, GID: 70100}, {UID: 70003, GID: 70003}, {UID: 70004, GID: 70004, Groups: []uint32{70101}}}
	put := func(name string, mode uint32, uid, gid int) {
		require.NoError(t, os.WriteFile(s.path(name), nil, 0o600))
		require.NoError(t, os.Chown(s.path(name), uid, gid))
		require.NoError(t, unix.Chmod(s.path(name), mode))
	}
	for id := range 3 {
		for _, mode := range []uint32{0, 0o111, 0o222, 0o444, 0o700, 0o070, 0o007, 0o640, 0o751, 0o077} {
			put(fmt.Sprintf("%o-%d", mode, id), mode, 70000+id, 70099+id)
		}
	}
	for i, list := range [][]byte{
		acl([3]uint32{aclUserObj, 6, aclNone}, [3]uint32{aclUser, 4, 70003}, [3]uint32{aclGroupObj, 0, aclNone}, [3]uint32{aclMask, 7, aclNone}, [3]uint32{aclOther, 0, aclNone}),
		acl([3]uint32{aclUserObj, 6, aclNone}, [3]uint32{aclUser, 7, 70001}, [3]uint32{aclGroupObj, 0, aclNone}, [3]uint32{aclMask, 4, aclNone}, [3]uint32{aclOther, 2, aclNone}),
		acl([3]uint32{aclUserObj, 6, aclNone}, [3]uint32{aclGroupObj, 0, aclNone}, [3]uint32{aclGroup, 6, 70101}, [3]uint32{aclMask, 7, aclNone}, [3]uint32{aclOther, 5, aclNone}),
	} {
		name := fmt.Sprint("acl", i)
		put(name, 0o640, 70009, 70009)
		require.NoError(t, unix.Setxattr(s.path(name), "system.posix_acl_access", list, 0))
	}
	for _, c := range callers {
		want := tryAs(t, exe, s.dir, c)
		require.NotEmpty(t, want)
		for name, bits := range want {
			h, _, _, err := f.Lookup(t.Context(), &c, f.Root(), name)
			require.NoError(t, err)
			got, _, err := f.Access(t.Context(), &c, h, vfs.AccessRead|vfs.AccessModify|vfs.AccessExecute)
			require.NoError(t, err)
			var granted uint32
			for mode, right := range map[uint32]uint32{unix.R_OK: vfs.AccessRead, unix.W_OK: vfs.AccessModify, unix.X_OK: vfs.AccessExecute} {
				if bits&mode != 0 {
					granted |= right
				}
			}
			assert.Equal(t, granted, got, "%s for %+v", name, c)
			a, err := f.GetAttr(t.Context(), &c, h)
			require.NoError(t, err)
			owner := a.UID == c.UID
			_, _, _, err = f.Read(t.Context(), &c, h, make([]byte, 1), 0)
			assert.Equal(t, owner || bits&(unix.R_OK|unix.X_OK) != 0, err == nil, "reading %s for %+v", name, c)
			_, _, _, err = f.Write(t.Context(), &c, h, nil, 0, vfs.Unstable)
			assert.Equal(t, owner || bits&unix.W_OK != 0, err == nil, "writing %s for %+v", name, c)
		}
	}
}

// onThread runs fn on a separate thread, which exits with fn.
func onThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		fn()
	}()
	<-done
}

// TestBecome checks that a switch to a caller affects one thread only, is complete and without any
// capability, and is undone afterwards, even after a panic.
func TestBecome(t *testing.T) {
	vfstest.NeedRoot(t)
	p, err := thisProcess()
	require.NoError(t, err)
	require.True(t, p.switches)
	c := vfs.Cred{UID: 70001, GID: 70002, Groups: []uint32{70003, 70004}}
	onThread(func() {
		before := status(t)
		w, err := p.switchTo(&c)
		require.NoError(t, err)
		during := status(t)
		w.restore()
		assert.Equal(t, before, status(t))

		assert.Equal(t, []string{"0", "70001", "0", "70001"}, during["Uid"], "real, effective, saved, of files")
		assert.Equal(t, []string{"0", "70002", "0", "70002"}, during["Gid"])
		assert.Equal(t, []string{"70003", "70004"}, during["Groups"])
		assert.Equal(t, []string{strings.Repeat("0", 16)}, during["CapEff"])
		assert.NotEqual(t, during["CapEff"], before["CapEff"])
		assert.Panics(t, func() {
			_ = p.runAs(&c, func() error { panic("instead of a system call") })
		})
		assert.Equal(t, before, status(t))

		w, err = p.switchUID(c.UID)
		require.NoError(t, err)
		assert.Equal(t, during["CapEff"], status(t)["CapEff"])
		w.restore()
		assert.Equal(t, before, status(t))
		for _, bad := range []vfs.Cred{{UID: noID}, {GID: noID}, {UID: 1, Groups: []uint32{noID}}, {UID: 1, Groups: make([]uint32, 1<<16+1)}} {
			assert.ErrorIs(t, p.runAs(&bad, func() error { return nil }), unix.EACCES)
			assert.Equal(t, before, status(t))
		}
		_, err = p.switchUID(noID)
		assert.ErrorIs(t, err, unix.EACCES)
	})
}

// status returns the identity of this thread from the kernel.
func status(t *testing.T) map[string][]string {
	b, err := os.ReadFile("/proc/thread-self/status")
	require.NoError(t, err)
	out := make(map[string][]string)
	for line := range bytes.Lines(b) {
		key, value, _ := strings.Cut(string(line), ":")
		switch key {
		case "Uid", "Gid", "Groups", "CapEff":
			out[key] = strings.Fields(value)
		}
	}
	return out
}

// TestGroupsOfDaemon checks that a caller without groups acts without the supplementary
// groups of a root daemon, which has them again afterwards.
func TestGroupsOfDaemon(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	s := newExportedDir(t, "", Options{})
	require.NoError(t, os.WriteFile(s.path("f"), []byte("data"), 0o600))
	require.NoError(t, os.Chown(s.path("f"), 0, 70100))
	require.NoError(t, os.Chmod(s.path("f"), 0o640))
	onThread(func() {
		require.Zero(t, setGroups([]uint32{70100}))
		w := &testFS{t, s, s.open(t), vfs.Cred{}}
		h := w.walk("f")
		for _, groups := range [][]uint32{nil, {}, {70101}} {
			c := vfs.Cred{UID: 70001, GID: 70001, Groups: groups}
			require.NoError(t, w.f.runAs(&c, func() error {
				assert.NotContains(t, status(t)["Groups"], "70100")
				assert.Len(t, status(t)["Groups"], len(groups))
				return nil
			}))
			assert.Equal(t, []string{"70100"}, status(t)["Groups"])
			_, _, _, err := w.f.Read(t.Context(), &c, h, make([]byte, 4), 0)
			assert.Equal(t, unix.EACCES, err)
		}
		_, _, _, err := w.f.Read(t.Context(), &vfs.Cred{UID: 70001, GID: 70001, Groups: []uint32{70100}}, h, make([]byte, 4), 0)
		assert.NoError(t, err, "a caller of the group")
	})
}

// TestRefusesHalfRoot checks that a root that cannot become other users, or keeps its capabilities
// then, serves no client.
func TestRefusesHalfRoot(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	s := newExportedDir(t, "", Options{})
	for name, spoil := range map[string]func() error{
		"no CAP_SETUID": func() error { return dropCapability(unix.CAP_SETUID) },
		"securebits":    func() error { return unix.Prctl(unix.PR_SET_SECUREBITS, 1<<2, 0, 0, 0) }, // no setuid fix-up
	} {
		onThread(func() {
			require.NoError(t, spoil(), name)
			_, err := Open(s.dir, s.o)
			assert.ErrorContains(t, err, "cannot act as other users", name)
		})
	}
}

// dropCapability removes a capability from the calling thread.
func dropCapability(n int) error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	data[n/32].Effective &^= 1 << (n % 32)
	data[n/32].Permitted &^= 1 << (n % 32)
	return unix.Capset(&hdr, &data[0])
}

// TestOrdinaryUser checks that a daemon of an ordinary user serves, to all
// callers, exactly the objects that this user may use.
func TestOrdinaryUser(t *testing.T) {
	vfstest.NeedRoot(t)
	checkCleanup(t)
	s := newExportedDir(t, "", Options{})
	daemon := vfs.Cred{UID: 70005, GID: 70005, Groups: []uint32{70100}}
	require.NoError(t, os.Chown(s.path(".."), int(daemon.UID), -1)) // for the state directory
	require.NoError(t, os.Chmod(s.dir, 0o777))
	put := func(name string, mode os.FileMode, uid, gid uint32) {
		require.NoError(t, os.WriteFile(s.path(name), []byte("data"), 0o600))
		require.NoError(t, os.Chown(s.path(name), int(uid), int(gid)))
		require.NoError(t, os.Chmod(s.path(name), mode))
	}
	put("secret", 0o600, 0, 0)
	put("shared", 0o660, 70001, 70100)
	put("own", 0o400, daemon.UID, daemon.GID)
	onThread(func() {
		require.Zero(t, setGroups(daemon.Groups))
		require.Zero(t, setEGID(daemon.GID))
		require.Zero(t, setEUID(daemon.UID))
		w := &testFS{t, s, s.open(t), vfs.Cred{}}
		assert.IsType(t, &tableHandles{}, w.f.handles)
		for _, c := range []vfs.Cred{{}, {UID: 70001, GID: 70001}, {UID: noID, GID: noID}} {
			w.c = c
			read := func(name string) error {
				_, _, _, err := w.f.Read(t.Context(), &c, w.walk(name), make([]byte, 4), 0)
				return err
			}
			write := func(name string) error {
				_, _, _, err := w.f.Write(t.Context(), &c, w.walk(name), []byte("data"), 0, vfs.FileSync)
				return err
			}
			assert.ErrorIs(t, read("secret"), unix.EACCES)
			assert.NoError(t, read("shared"))
			assert.NoError(t, write("shared"))
			assert.NoError(t, read("own"))
			assert.ErrorIs(t, write("own"), unix.EACCES)
			// Like open with O_TRUNC, on another user's file.
			size := uint64(4)
			_, err := w.f.SetAttr(t.Context(), &c, w.walk("shared"), vfs.SetAttr{Size: &size, MtimeHow: vfs.SetToServer}, nil)
			assert.NoError(t, err)
			m, err := w.f.Create(t.Context(), &c, w.f.Root(), "new", vfs.CreateHow{Mode: vfs.Exclusive, Attr: vfs.SetAttr{UID: &c.UID}})
			require.NoError(t, err)
			assert.Equal(t, daemon.UID, m.Attr.UID)
			_, err = w.f.Remove(t.Context(), &c, w.f.Root(), "new")
			require.NoError(t, err)
		}
	})
}
