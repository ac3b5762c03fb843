package fusefs

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strconv"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// status returns the lines of /proc/PID/status of a thread.
func status(pid uint32) ([]byte, error) {
	return os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
}

// field returns the value of a named line of status.
func field(status []byte, name string) []byte {
	_, rest, found := bytes.Cut(status, []byte("\n"+name+":"))
	if !found {
		return nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.TrimSpace(line)
}

// killed reports whether a thread has SIGKILL pending or is gone. For a thread
// in a namespace that we cannot see, whose number is 0, it reports false.
func killed(pid uint32) bool {
	if pid == 0 {
		return false
	}
	s, err := status(pid)
	if err != nil {
		return syscall.Kill(int(pid), 0) == syscall.ESRCH
	}
	for _, name := range []string{"SigPnd", "ShdPnd"} {
		pending, err := strconv.ParseUint(string(field(s, name)), 16, 64)
		if err == nil && pending&(1<<(syscall.SIGKILL-1)) != 0 {
			return true
		}
	}
	return dying(pid)
}

// dying reports whether a thread is exiting because of SIGKILL, which is then
// no longer pending.
func dying(pid uint32) bool {
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

// zombie reports whether a process has ended, and its parent has not noticed.
func zombie(pid uint32) bool {
	s, err := status(pid)
	return err == nil && bytes.HasPrefix(field(s, "State"), []byte("Z"))
}

// running reports whether a thread has a processor, or waits for a processor.
func running(thread uint32) bool {
	s, err := status(thread)
	return err == nil && bytes.HasPrefix(field(s, "State"), []byte("R"))
}

// groups returns the supplementary groups of the thread of a request, as many
// as RPC carries. It returns none if the thread is not in this /proc, or does
// not have the caller's user and group there: a request outlives a killed
// thread, and another thread may get its number.
func groups(from *fuse.Caller) []uint32 {
	s, err := status(from.Pid)
	if err != nil || acting(s, "Uid") != uint64(from.Uid) || acting(s, "Gid") != uint64(from.Gid) {
		return nil // the server then goes by user and group
	}
	var list []uint32
	for _, word := range bytes.Fields(field(s, "Groups")) {
		g, err := strconv.ParseUint(string(word), 10, 32)
		if err == nil && uint32(g) != from.Gid && len(list) < maxGroups {
			list = append(list, uint32(g))
		}
	}
	return list
}

// acting returns a thread's user or group number for file system access: the
// last of the four numbers of a status line.
func acting(status []byte, name string) uint64 {
	if f := bytes.Fields(field(status, name)); len(f) == 4 {
		if id, err := strconv.ParseUint(string(f[3]), 10, 32); err == nil {
			return id
		}
	}
	return math.MaxUint64
}
