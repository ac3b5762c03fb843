package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// listed reports whether a list of the kernel, lines such as "tcp 2049", has a port.
func listed(portlist, number string) bool {
	for line := range strings.Lines(portlist) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == number {
			return true
		}
	}
	return false
}

// files sees the exports file, and the directories in it.
func (h *Host) files() (list []Finding) {
	f, err := h.Exports()
	if err != nil {
		return []Finding{{"exports", Fail, err.Error(), "see nfsrdmad exports check " + h.ExportsFile}}
	}
	if len(f.Exports) == 0 {
		return []Finding{{"exports", Fail, h.ExportsFile + " lists no export", "write one: /srv/data 192.0.2.0/24(rw)"}}
	}
	for _, e := range f.Exports {
		list = append(list, directory(e.Path)...)
	}
	return list
}

// directory sees whether a directory can be exported, and what its file system has.
func directory(dir string) []Finding {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return []Finding{{"directory", Fail, fmt.Sprintf("%s cannot be exported (%v)", dir, cli.Cause(err)), "mkdir -p " + dir + ", or correct the exports"}}
	case !info.IsDir():
		return []Finding{{"directory", Fail, dir + " is not a directory", "export " + filepath.Dir(dir)}}
	}
	list := []Finding{{"directory", OK, dir + " is a directory", ""}}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err == nil {
		err = opens(dir, handle)
	}
	if err != nil {
		list = append(list, Finding{"directory", Warn, fmt.Sprintf("%s: the kernel does not open files by handle (%v)", dir, err), "a table in the state directory replaces that; run as root, with CAP_DAC_READ_SEARCH, on a file system with handles"})
	}
	if err := leases(dir); err != nil {
		list = append(list, Finding{"directory", Warn, fmt.Sprintf("%s: no leases (%v)", dir, err), "clients get no delegations; changes by this host's processes are seen late"})
	}
	return list
}

func opens(dir string, handle unix.FileHandle) error {
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	fd, err := unix.OpenByHandleAt(at, handle, unix.O_PATH|unix.O_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// capabilities sees whether root may act as others.
func (h *Host) capabilities() Finding {
	if os.Geteuid() != 0 {
		return Finding{"capabilities", Warn, "not root: all calls run as this user", "run as root, to have each call done as its caller"}
	}
	set, err := capabilities(h.status)
	if err != nil {
		return Finding{"capabilities", Warn, "capabilities are not known: " + cli.Cause(err).Error(), "see " + h.status}
	}
	return grade(set)
}

// grade judges a set of capabilities.
func grade(set uint64) Finding {
	missing := func(names []string, bits ...int) (list []string) {
		for i, bit := range bits {
			if set&(1<<bit) == 0 {
				list = append(list, names[i])
			}
		}
		return list
	}
	if list := missing([]string{"CAP_SETGID", "CAP_SETUID"}, unix.CAP_SETGID, unix.CAP_SETUID); len(list) > 0 {
		return Finding{"capabilities", Fail, "root cannot act as other users without " + strings.Join(list, " and "), "grant them (CapabilityBoundingSet=, --cap-add), or run as an ordinary user"}
	}
	if list := missing([]string{"CAP_DAC_READ_SEARCH", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER"},
		unix.CAP_DAC_READ_SEARCH, unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER); len(list) > 0 {
		return Finding{"capabilities", Warn, "missing: " + strings.Join(list, ", "), "files are found by a table, or no_root_squash does less; grant them if that matters"}
	}
	return Finding{"capabilities", OK, "all capabilities of the daemon are there", ""}
}

// leases tries a lease on a file that has no name, and ends with this call.
func leases(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil // not writable here, or no such files: nothing can be said
	}
	defer unix.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	return err
}
