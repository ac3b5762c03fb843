package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// threadStatus returns the lines in a thread's /proc/PID/status.
func threadStatus(pid uint32) ([]byte, error) {
	return os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
}

// statusField returns the value on a named line in status.
func statusField(status []byte, name string) []byte {
	_, rest, found := bytes.Cut(status, []byte("\n"+name+":"))
	if !found {
		return nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.TrimSpace(line)
}

// isKilled reports whether a thread has SIGKILL pending or is gone. For a thread in
// a namespace that we cannot see, whose number is 0, it returns false.
func isKilled(pid uint32) bool {
	if pid == 0 {
		return false
	}
	s, err := threadStatus(pid)
	if err != nil {
		return syscall.Kill(int(pid), 0) == syscall.ESRCH
	}
	for _, name := range []string{"SigPnd", "ShdPnd"} {
		pending, err := strconv.ParseUint(string(statusField(s, name)), 16, 64)
		if err == nil && pending&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return !hasMemory(s) && isDying(pid)
}

// hasMemory reports whether a thread has an address space. A thread that is exiting has
// none when it closes its files.
func hasMemory(status []byte) bool { return statusField(status, "VmSize") != nil }

// isDying reports whether a thread is exiting because of SIGKILL, which is then
// no longer pending. It must not be called for a thread that has an address space: the
// thread may be executing a program, and closing its files, for which it waits for this
// mount; until then, Linux lets readers of /proc/PID/stat wait.
func isDying(pid uint32) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third field on
	const flags, code, exiting = 9 - 3, 52 - 3, 0x4
	if len(f) <= code {
		return false
	}
	is, err := strconv.ParseUint(string(f[flags]), 10, 64)
	why, err2 := strconv.ParseUint(string(f[code]), 10, 64)
	return err == nil && err2 == nil && is&exiting != 0 && why&0x7f == uint64(syscall.SIGKILL)
}

// isZombie reports whether a process has exited and its parent has not waited for
// it.
func isZombie(pid uint32) bool {
	s, err := threadStatus(pid)
	return err == nil && bytes.HasPrefix(statusField(s, "State"), []byte("Z"))
}

// isRunning reports whether a thread runs on a processor, or waits for one.
func isRunning(thread uint32) bool {
	s, err := threadStatus(thread)
	return err == nil && bytes.HasPrefix(statusField(s, "State"), []byte("R"))
}

// The reasons for which a caller's supplementary groups are not known.
var (
	errUnseen  = errors.New("the process is in a PID namespace that this mount cannot see")
	errHidden  = errors.New("/proc does not show the process to this mount")
	errForeign = errors.New("/proc shows another PID namespace than the mount's")
	errAnother = errors.New("the process acts for another user or group than its own")
)

// supplementaryGroups returns the supplementary groups of a request's thread, as
// many as RPC carries. It returns an error if they are not known: the thread may
// not be in this /proc, or may not have the caller's user and group there. A thread
// that is gone has no groups, without an error: a request outlives a killed thread.
func supplementaryGroups(from *fuse.Caller) ([]uint32, error) {
	if from.Pid == 0 {
		return nil, errUnseen
	}
	s, err := threadStatus(from.Pid)
	switch {
	case !procIsOwn():
		return nil, errForeign
	case err != nil && syscall.Kill(int(from.Pid), 0) == syscall.ESRCH:
		return nil, nil
	case err != nil:
		return nil, errHidden
	case fileSystemID(s, "Uid") != uint64(from.Uid) || fileSystemID(s, "Gid") != uint64(from.Gid):
		return nil, errAnother
	}
	var list []uint32
	for _, word := range bytes.Fields(statusField(s, "Groups")) {
		g, err := strconv.ParseUint(string(word), 10, 32)
		if err == nil && uint32(g) != from.Gid && len(list) < maxGroups {
			list = append(list, uint32(g))
		}
	}
	return list, nil
}

// procIsOwn reports whether /proc shows this process's PID namespace. In another
// namespace, a number may identify another process.
var procIsOwn = sync.OnceValue(func() bool {
	self, err := os.Readlink("/proc/self")
	return err != nil || self == strconv.Itoa(os.Getpid())
})

// fileSystemID returns a thread's user or group number for file system access: the
// last of the four numbers in a status line.
func fileSystemID(status []byte, name string) uint64 {
	if f := bytes.Fields(statusField(status, name)); len(f) == 4 {
		if id, err := strconv.ParseUint(string(f[3]), 10, 32); err == nil {
			return id
		}
	}
	return math.MaxUint64
}
