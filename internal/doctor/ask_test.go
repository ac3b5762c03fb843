package doctor

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/nstest"
)

// fuseMount makes a mount whose requests device gets.
func fuseMount(t *testing.T, dir string) (device *os.File) {
	t.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Mount("server:/x", dir, "fuse.nfsrdma", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())))
	t.Cleanup(func() {
		device.Close()
		assert.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return device
}

// TestHungDirectories exports a directory of a mount that does not answer, and has the state
// directory there.
func TestHungDirectories(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		device := fuseMount(t, dir)
		time.AfterFunc(20*time.Second, func() { device.Close() }) // a check that waits fails, and ends

		h := NewHost()
		h.patience = 300 * time.Millisecond
		h.State = filepath.Join(dir, "state")
		one := exports.Export{Path: dir, Clients: exports.Everyone(exports.Options{})}
		h.Exports = func() (*exports.File, error) { return &exports.File{Exports: []exports.Export{one, one}}, nil }
		list := h.files(t.Context())
		assert.Len(t, list, 2)
		says(t, list, "directory", Fail, dir+" cannot be exported: its file system does not answer", "/proc/mounts")
		says(t, []Finding{h.state(t.Context())}, "state", Fail, "does not answer", "--state")
	})
}

// TestStaleMount has a mount whose server has forgotten the directory.
func TestStaleMount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		device := fuseMount(t, dir)
		go refuse(device, unix.ESTALE)
		assert.Equal(t, []Finding{{
			"mounts", Fail, "the mount of server:/x on " + dir + " answers with an error (Stale file handle)",
			"see whether its server still exports that; then mountrdma umount -f " + dir + ", and mount again",
		}}, NewClient().mounts(t.Context()))
	})
}

// TestClosedMount has a mount that this user may not look into, which is no fault.
func TestClosedMount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		go refuse(fuseMount(t, t.TempDir()), unix.EACCES)
		assert.Equal(t, OK, only(t, NewClient().mounts(t.Context()), "mounts").Grade)
	})
}

// refuse answers all requests of a FUSE device but the first, INIT, with an error.
func refuse(device *os.File, no unix.Errno) {
	const opInit, header = 26, 16
	b := make([]byte, 1<<17)
	for {
		n, err := device.Read(b)
		if err != nil || n < 40 {
			return
		}
		reply := make([]byte, header, header+64)
		copy(reply[8:], b[8:16]) // unique
		if binary.NativeEndian.Uint32(b[4:]) == opInit {
			reply = reply[:header+64]
			binary.NativeEndian.PutUint32(reply[header:], 7)
			binary.NativeEndian.PutUint32(reply[header+4:], 31)
			binary.NativeEndian.PutUint32(reply[header+20:], 4096) // max_write
		} else {
			binary.NativeEndian.PutUint32(reply[4:], uint32(-int32(no)))
		}
		binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
		_, _ = device.Write(reply)
	}
}
