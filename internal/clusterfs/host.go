package clusterfs

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A Host is a host's mount of a FileSystem. Its methods that hold messages affect all
// mounts of the host. The end of the test ends the effect of Stop, Cut and Hang, before
// what began earlier is cleaned up: processes that use the mount could not exit.
type Host struct {
	// Dir is the mount point.
	Dir string

	// PID is the process that serves the mount.
	PID int

	fs   *FileSystem
	name string
	t    testing.TB
	cmd  *exec.Cmd
}

// Mount mounts the file system for a host on a new directory. The mount ends with the
// test.
func (f *FileSystem) Mount(host string) *Host {
	f.t.Helper()
	dir, err := os.MkdirTemp(f.dir, host+"-")
	require.NoError(f.t, err)
	h := &Host{Dir: dir, fs: f, name: host, t: f.t}
	h.cmd = exec.Command(executable(), commandWord, "mount", f.socket, host, dir)
	f.t.Cleanup(h.close)
	f.startCommand(h.cmd)
	h.PID = h.cmd.Process.Pid
	return h
}

func executable() string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return self
}

func (h *Host) close() {
	unix.Unmount(h.Dir, unix.MNT_DETACH)
	if h.cmd.Process != nil {
		h.Kill()
	}
}

// Kill kills the mount process, and waits for its end: the mount is dead, and the
// engine's connection is lost.
func (h *Host) Kill() {
	h.cmd.Process.Kill()
	h.cmd.Wait() // an error if it was called before
}

// Stop stops the mount process (SIGSTOP), and waits until it has stopped.
func (h *Host) Stop() {
	h.t.Helper()
	h.t.Cleanup(func() { h.cmd.Process.Signal(unix.SIGCONT) }) // an error if it was killed
	require.NoError(h.t, h.cmd.Process.Signal(unix.SIGSTOP))
	var info unix.Siginfo
	require.NoError(h.t, unix.Waitid(unix.P_PID, h.PID, &info, unix.WSTOPPED, nil))
}

// Continue continues a stopped mount process.
func (h *Host) Continue() {
	h.t.Helper()
	require.NoError(h.t, h.cmd.Process.Signal(unix.SIGCONT))
}

// Cut cuts the host from the engine: what its kernel sends, and what the engine
// replies, waits for Restore.
func (h *Host) Cut() {
	h.t.Helper()
	h.t.Cleanup(h.Restore)
	h.setHold(holdAll)
}

// Hang lets the host's operations hang until Restore, while the engine considers the
// host alive.
func (h *Host) Hang() {
	h.t.Helper()
	h.t.Cleanup(h.Restore)
	h.setHold(holdRequests)
}

// Restore ends the effect of Cut and Hang.
func (h *Host) Restore() { h.setHold(holdNothing) }

func (h *Host) setHold(hold hold) {
	h.t.Helper()
	h.fs.control("hold", h.name, int(hold))
}

// Delay delays each operation of the host.
func (h *Host) Delay(d time.Duration) {
	h.t.Helper()
	h.fs.control("delay", h.name, int64(d))
}
