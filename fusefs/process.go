package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
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

// groups returns the supplementary groups of a thread, as many as RPC carries.
func groups(pid, gid uint32) []uint32 {
	s, err := status(pid)
	if err != nil {
		return nil // not in our /proc: the server goes by user and group
	}
	var list []uint32
	for _, word := range bytes.Fields(field(s, "Groups")) {
		g, err := strconv.ParseUint(string(word), 10, 32)
		if err == nil && uint32(g) != gid && len(list) < maxGroups {
			list = append(list, uint32(g))
		}
	}
	return list
}
