package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// checkCrossing rejects the option crossmnt if there are mounts below dir, because an export
// consists of one mount.
func checkCrossing(dir string) error {
	path, _, err := resolveDir(dir)
	if err != nil {
		return err
	}
	list, err := mountinfo.All()
	if err != nil {
		return fmt.Errorf("crossmnt: %w", err)
	}
	if mounts := mountinfo.Below(list, []string{path})[0]; len(mounts) > 0 {
		return fmt.Errorf("option crossmnt: clients of %s do not see %s, which is another mount: export it on its own line, and remove crossmnt",
			dir, strings.Join(mountinfo.Points(mounts), ", "))
	}
	return nil
}

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
		if e := f.Exports[i]; len(mounts) > 0 && (len(only) == 0 || slices.Contains(only, e.Path)) {
			list = append(list, fmt.Sprintf("%s:%d: clients of %s see empty directories in place of the mounts below it (%s): export each on its own line",
				e.File, e.Line, e.Path, mountinfo.Summary(mounts)))
		}
	}
	return list
}
