package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/exports"
	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// files sees the exports file, and the directories in it.
func (h *Host) files(ctx context.Context) (list []Finding) {
	f, err := h.Exports()
	if err != nil {
		return []Finding{{"exports", Fail, err.Error(), "see nfsrdmad exports check " + h.ExportsFile}}
	}
	if len(f.Exports) == 0 {
		return []Finding{{"exports", Fail, h.ExportsFile + " lists no export", "write one: /srv/data 192.0.2.0/24(rw)"}}
	}
	found := make([][]Finding, len(f.Exports))
	slots := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, e := range f.Exports {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if _, err := ask(ctx, e.Path, h.patience); errors.Is(err, errSilent) {
				found[i] = []Finding{{"directory", Fail, e.Path + " cannot be exported: its file system does not answer", "see whether the server of that mount does (cat /proc/mounts names it), or export another directory"}}
				return
			}
			writable := slices.ContainsFunc(e.Clients, func(c exports.Client) bool { return !c.Options.ReadOnly })
			found[i] = directory(e.Path, writable)
		})
	}
	running.Wait()
	return slices.Concat(found...)
}

// atOnce is how many directories are examined at a time: each waits for its file system.
const atOnce = 16

// directory sees whether a directory can be exported, and what its file system has.
func directory(dir string, writable bool) []Finding {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return []Finding{{"directory", Fail, fmt.Sprintf("%s cannot be exported (%v)", dir, cli.Cause(err)), "mkdir -p " + dir + ", or correct the exports"}}
	case !info.IsDir():
		return []Finding{{"directory", Fail, dir + " is not a directory", "export " + filepath.Dir(dir)}}
	}
	on := mountOf(dir)
	var list []Finding
	if writable {
		list = append(list, space("space", dir, "though exported rw"))
	}
	has := []string{on.Kind}
	if err := handles(dir); err != nil {
		list = append(list, Finding{"handles", Warn, fmt.Sprintf("%s (%s): the kernel does not open files by handle (%v)", dir, on.Kind, err), handlesRemedy(on.Kind)})
	} else {
		has = append(has, "file handles")
	}
	switch err := leases(dir); {
	case errors.Is(err, errNoFile):
	case err != nil:
		list = append(list, Finding{"leases", Warn, fmt.Sprintf("%s (%s): no leases (%v)", dir, on.Kind, err), "clients get no delegations; changes by this host's processes are seen late"})
	default:
		has = append(has, "leases")
	}
	return append([]Finding{{"directory", OK, dir + " is a directory (" + strings.Join(has, ", ") + ")", ""}}, list...)
}

// handlesRemedy is the remedy for a file system without file handles.
func handlesRemedy(kind string) string {
	const table = "a table in the state directory replaces them"
	switch {
	case kind == "overlay":
		return table + "; for handles, mount it with -o index=on,nfs_export=on"
	case kind == "fuse" || strings.HasPrefix(kind, "fuse."), kind == "nfs", kind == "nfs4":
		return table + "; for handles, export the directory where its disk is"
	}
	return table + "; for handles, run as root, with CAP_DAC_READ_SEARCH"
}

// handles tries to open a directory by its file handle.
func handles(dir string) error {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, dir, 0)
	if err != nil {
		return err
	}
	return opens(dir, handle)
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

// errNoFile reports that no file was there to try a lease.
var errNoFile = errors.New("no file to try")

// leases tries a lease, which ends with this call: on a file that has no name, or else on
// one of the first files of the directory.
func leases(dir string) error {
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		defer unix.Close(fd)
		return lease(fd, unix.F_WRLCK)
	}
	d, err := os.Open(dir)
	if err != nil {
		return errNoFile
	}
	defer d.Close()
	names, _ := d.ReadDir(maxLooked) // an error leaves those read before
	for _, e := range names {
		if !e.Type().IsRegular() {
			continue
		}
		fd, err := unix.Open(filepath.Join(dir, e.Name()), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if err = lease(fd, unix.F_RDLCK); err == nil || errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return errNoFile
}

// maxLooked is how many entries of a directory leases looks at.
const maxLooked = 32

func lease(fd, kind int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, kind)
	return err
}
