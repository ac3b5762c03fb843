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

	"github.com/nfsrdma/nfsrdma/internal/nstest"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// mountFUSE creates a FUSE mount, whose requests can be read from device.
func mountFUSE(t *testing.T, dir string) (device *os.File) {
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

// TestHungDirectories checks an exported directory and a state directory on a mount that does
// not respond.
func TestHungDirectories(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		device := mountFUSE(t, dir)
		time.AfterFunc(20*time.Second, func() { device.Close() }) // ends a check that waits

		h := NewHost()
		h.probeTimeout = 300 * time.Millisecond
		h.State = filepath.Join(dir, "state")
		one := exports.Export{Path: dir, Clients: exports.Everyone(exports.Options{})}
		h.Exports = func() (*exports.File, error) { return &exports.File{Exports: []exports.Export{one, one}}, nil }
		list := h.checkExports(t.Context())
		assert.Len(t, list, 2)
		assertFinding(t, list, "directory", Fail, dir+" cannot be exported: its file system does not respond", "/proc/mounts")
		assertFinding(t, []Finding{h.checkState(t.Context())}, "state", Fail, "does not respond", "--state")
	})
}

// patientClient returns a Client with a timeout for busy hosts.
func patientClient() *Client {
	c := NewClient()
	c.probeTimeout = time.Minute
	return c
}

// TestStaleMount checks a mount whose directory no longer exists on the server.
func TestStaleMount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		device := mountFUSE(t, dir)
		go answerErrors(device, unix.ESTALE)
		assert.Equal(t, []Finding{{
			"mounts", Fail, "the mount of server:/x on " + dir + " returns an error (Stale file handle)",
			"check whether its server still exports that; then mountrdma umount -f " + dir + ", and mount again",
		}}, patientClient().checkMounts(t.Context()))
	})
}

// TestClosedMount checks that a mount that this user cannot access is no error.
func TestClosedMount(t *testing.T) {
	nstest.Run(t, func(t *testing.T) {
		go answerErrors(mountFUSE(t, t.TempDir()), unix.EACCES)
		assert.Equal(t, OK, onlyFinding(t, patientClient().checkMounts(t.Context()), "mounts").Grade)
	})
}

// answerErrors replies with an error to all requests of a FUSE device but the first, INIT.
func answerErrors(device *os.File, no unix.Errno) {
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
