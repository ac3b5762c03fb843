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
	if errors.Is(err, os.ErrNotExist) {
		return []Finding{{"exports", Fail, h.ExportsFile + " does not exist", "nfsrdmad exports add --exports " + h.ExportsFile + " /srv/data '192.0.2.0/24(rw)', or name the daemon's file with --exports"}}
	}
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
			exclusive := !slices.ContainsFunc(e.Clients, func(c exports.Client) bool { return !c.Options.Exclusive })
			found[i] = directory(e.Path, writable, exclusive)
		})
	}
	running.Wait()
	return slices.Concat(found...)
}

// atOnce is how many directories are examined at a time: each waits for its file system.
const atOnce = 16

// directory sees whether a directory can be exported, and what its file system has.
func directory(dir string, writable, exclusive bool) []Finding {
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
	if f := handlesOf(dir, on.Kind); f.Grade == OK {
		has = append(has, "file handles")
	} else {
		list = append(list, f)
	}
	switch f, known := leasesOf(dir, on.Kind); {
	case !known || exclusive: // not to be seen, or not needed
	case f.Grade == OK:
		has = append(has, "leases")
	default:
		list = append(list, f)
	}
	return append([]Finding{{"directory", OK, dir + " is a directory (" + strings.Join(has, ", ") + ")", ""}}, list...)
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
