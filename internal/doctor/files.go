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

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// checkExports checks the exports file and the directories in it.
func (h *Host) checkExports(ctx context.Context) (list []Finding) {
	f, err := h.Exports()
	if errors.Is(err, os.ErrNotExist) {
		return []Finding{{"exports", Fail, h.ExportsFile + " does not exist", "nfsrdmad exports add --exports " + h.ExportsFile + " /srv/data '192.0.2.0/24(rw)', or name the daemon's file with --exports"}}
	}
	if err != nil {
		return []Finding{{"exports", Fail, err.Error(), "see nfsrdmad exports check " + h.ExportsFile}}
	}
	if len(f.Exports) == 0 {
		return []Finding{{"exports", Fail, h.ExportsFile + " lists no export", "add one: /srv/data 192.0.2.0/24(rw)"}}
	}
	found := make([][]Finding, len(f.Exports), len(f.Exports)+1)
	slots := make(chan struct{}, maxParallelChecks)
	var wg sync.WaitGroup
	for i, e := range f.Exports {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := probeFileSystem(ctx, e.Path, h.probeTimeout); errors.Is(err, errNoAnswer) {
				found[i] = []Finding{{"directory", Fail, e.Path + " cannot be exported: its file system does not respond", "check the server of that mount (cat /proc/mounts names it), or export another directory"}}
				return
			}
			writable := slices.ContainsFunc(e.Clients, func(c exports.Client) bool { return !c.Options.ReadOnly })
			exclusive := !slices.ContainsFunc(e.Clients, func(c exports.Client) bool { return !c.Options.Exclusive })
			found[i] = checkDirectory(e.Path, writable, exclusive)
		})
	}
	wg.Wait()
	return slices.Concat(append(found, checkHiddenMounts(f.Exports, found))...)
}

// checkHiddenMounts checks for mounts that clients do not see, below the exports whose directories
// were found.
func checkHiddenMounts(list []exports.Export, found [][]Finding) (hidden []Finding) {
	all, err := mountinfo.All()
	if err != nil {
		return nil
	}
	dirs := make([]string, len(list))
	for i, e := range list {
		dirs[i] = e.Path
		if found[i][0].Grade == OK { // otherwise its file system may not respond
			dirs[i], _ = filepath.EvalSymlinks(e.Path)
		}
	}
	for i, mounts := range mountinfo.Below(all, dirs) {
		mounts = slices.DeleteFunc(mounts, func(m mountinfo.Mount) bool { return !m.HasFiles() })
		crosses := slices.ContainsFunc(list[i].Clients, func(c exports.Client) bool { return c.Options.CrossMnt })
		if len(mounts) > 0 && !crosses {
			hidden = append(hidden, Finding{"mounts", Warn, fmt.Sprintf("clients of %s see empty directories in place of the mounts below it (%s)", list[i].Path, mountinfo.Summary(mounts)), "add crossmnt to its clients, or export each on its own line"})
		}
	}
	return hidden
}

// maxParallelChecks is how many directories are checked at a time.
const maxParallelChecks = 16

// checkDirectory checks whether a directory can be exported, and what its file system supports.
func checkDirectory(dir string, writable, exclusive bool) []Finding {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return []Finding{{"directory", Fail, fmt.Sprintf("%s cannot be exported (%v)", dir, cli.Cause(err)), "mkdir -p " + dir + ", or correct the exports"}}
	case !info.IsDir():
		return []Finding{{"directory", Fail, dir + " is not a directory", "export " + filepath.Dir(dir)}}
	}
	on := containingMount(dir)
	var list []Finding
	if writable {
		list = append(list, checkSpace("space", dir, "though exported rw"))
	}
	has := []string{on.Kind}
	if f := checkHandles(dir, on.Kind); f.Grade == OK {
		has = append(has, "file handles")
	} else {
		list = append(list, f)
	}
	switch f, known := checkLeases(dir, on.Kind); {
	case !known || exclusive: // not known, or not needed
	case f.Grade == OK:
		has = append(has, "leases")
	default:
		list = append(list, f)
	}
	return append([]Finding{{"directory", OK, dir + " is a directory (" + strings.Join(has, ", ") + ")", ""}}, list...)
}

// checkCapabilities checks whether root can act as other users.
func (h *Host) checkCapabilities() Finding {
	if os.Geteuid() != 0 {
		return Finding{"capabilities", Warn, "not root: all calls are executed as this user", "run as root to execute each call as its caller"}
	}
	set, err := effectiveCapabilities(h.status)
	if err != nil {
		return Finding{"capabilities", Warn, "the capabilities are unknown: " + cli.Cause(err).Error(), "see " + h.status}
	}
	return judgeCapabilities(set)
}

// judgeCapabilities returns the finding about a set of capabilities.
func judgeCapabilities(set uint64) Finding {
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
		return Finding{"capabilities", Warn, "missing: " + strings.Join(list, ", "), "files are found with a table, or no_root_squash permits less; grant them if needed"}
	}
	return Finding{"capabilities", OK, "the daemon has all needed capabilities", ""}
}
