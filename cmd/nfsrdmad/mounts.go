package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// hiddenMountWarnings returns a warning for each export below which there are mounts that its
// clients do not see. If only is not empty, it returns only those for these directories.
func hiddenMountWarnings(f *exports.File, only ...string) (list []string) {
	all, err := mountinfo.All()
	if err != nil {
		return nil
	}
	dirs := make([]string, len(f.Exports))
	for i, e := range f.Exports {
		dirs[i] = e.Path
		if len(only) > 0 && !slices.Contains(only, e.Path) { // its storage may not respond
			continue
		}
		if path, err := filepath.EvalSymlinks(e.Path); err == nil {
			dirs[i] = path
		}
	}
	for i, mounts := range mountinfo.Below(all, dirs) {
		mounts = slices.DeleteFunc(mounts, func(m mountinfo.Mount) bool { return !m.HasFiles() })
		e := f.Exports[i]
		crosses := slices.ContainsFunc(e.Clients, func(c exports.Client) bool { return c.Options.CrossMnt })
		if len(mounts) > 0 && !crosses && (len(only) == 0 || slices.Contains(only, e.Path)) {
			list = append(list, fmt.Sprintf("%s:%d: clients of %s see empty directories in place of the mounts below it (%s): add crossmnt to its clients, or export each on its own line",
				e.File, e.Line, e.Path, mountinfo.Summary(mounts)))
		}
	}
	return list
}
