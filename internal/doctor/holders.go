package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A holder is a process with a listening socket.
type holder struct {
	pid  int
	name string
}

func (h holder) String() string { return fmt.Sprintf("%s (process %d)", h.name, h.pid) }

// portHolders returns the processes that listen on a TCP port. Only root sees those of other
// users.
func portHolders(port uint16) (list []holder) {
	inodes := listeningSockets(port)
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	for _, dir := range processes {
		if !hasSocket(dir, inodes) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		name, err := os.ReadFile(dir + "/comm")
		if err != nil {
			continue // the process has ended
		}
		list = append(list, holder{pid, strings.TrimSpace(string(name))})
	}
	return list
}

// hasSocket reports whether a process has one of the sockets open.
func hasSocket(dir string, inodes []string) bool {
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return false
	}
	for _, f := range files {
		link, err := os.Readlink(dir + "/fd/" + f.Name())
		if err == nil && slices.Contains(inodes, link) {
			return true
		}
	}
	return false
}

// listeningSockets returns the sockets that listen on a TCP port, by their names in
// /proc/PID/fd.
func listeningSockets(port uint16) (inodes []string) {
	const state, listen = 3, "0A"
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[state] == listen && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
				inodes = append(inodes, "socket:["+f[9]+"]")
			}
		}
	}
	return inodes
}
