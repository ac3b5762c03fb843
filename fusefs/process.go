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

// field returns what a line of status says.
func field(status []byte, name string) []byte {
	_, rest, found := bytes.Cut(status, []byte("\n"+name+":"))
	if !found {
		return nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.TrimSpace(line)
}

// killed tells whether a thread has SIGKILL waiting for it, or is no more. Of
// one in a namespace that we do not see, whose number is 0, nobody knows.
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

// dying tells whether a thread is ending as SIGKILL has it do: that does not wait
// for it any more.
func dying(pid uint32) bool {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third on
	const flags, code, exiting = 9 - 3, 52 - 3, 0x4
	if len(f) <= code {
		return false
	}
	is, err := strconv.ParseUint(string(f[flags]), 10, 64)
	why, err2 := strconv.ParseUint(string(f[code]), 10, 64)
	return err == nil && err2 == nil && is&exiting != 0 && why&0x7f == uint64(syscall.SIGKILL)
}

// running tells whether a thread has a processor, or waits for one.
func running(thread uint32) bool {
	s, err := status(thread)
	return err == nil && bytes.HasPrefix(field(s, "State"), []byte("R"))
}

// groups returns the supplementary groups of the thread of a request, as many as RPC
// carries; none if the thread is not in this /proc, or is not the caller's user and group
// there: a request outlives a thread that is killed, whose number another may get.
func groups(from *fuse.Caller) []uint32 {
	s, err := status(from.Pid)
	if err != nil || acting(s, "Uid") != uint64(from.Uid) || acting(s, "Gid") != uint64(from.Gid) {
		return nil // the server goes by user and group
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

// acting returns the number that a thread has at the file system, of its user or group:
// the last of the four of a line.
func acting(status []byte, name string) uint64 {
	if f := bytes.Fields(field(status, name)); len(f) == 4 {
		if id, err := strconv.ParseUint(string(f[3]), 10, 32); err == nil {
			return id
		}
	}
	return math.MaxUint64
}
