package mountinfo

import (
	"fmt"
	"slices"
	"strings"
)

// Below returns the mounts in list that are visible below each of the directories dirs, in the
// order of their paths. A mount belongs to the lowest of the directories above it. A mount on one
// of the directories belongs to none.
func Below(list []Mount, dirs []string) [][]Mount {
	t := newTable(list)
	below := make([][]Mount, len(dirs))
	for _, m := range t.top {
		if at := lowestAbove(m.Point, dirs); at >= 0 && dirs[at] != m.Point && t.isVisible(m) {
			m.IsTriggered = t.isOnAutomount(m)
			below[at] = append(below[at], m)
		}
	}
	for _, mounts := range below {
		slices.SortFunc(mounts, func(a, b Mount) int { return strings.Compare(a.Point, b.Point) })
	}
	return below
}

// lowestAbove returns the index of the longest path in dirs that contains or is point, or -1.
func lowestAbove(point string, dirs []string) int {
	at := -1
	for i, dir := range dirs {
		if contains(dir, point) && (at < 0 || len(dir) > len(dirs[at])) {
			at = i
		}
	}
	return at
}

// contains reports whether path is dir, which may be empty, or below it.
func contains(dir, path string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && dir != "" && (rest == "" || rest[0] == '/')
}

// A table finds mounts.
type table struct {
	byID map[uint64]Mount
	top  map[string]Mount // by point, the topmost
}

func newTable(list []Mount) *table {
	t := &table{make(map[uint64]Mount, len(list)), make(map[string]Mount, len(list))}
	for _, m := range list {
		t.byID[m.ID] = m
	}
	covered := make(map[uint64]bool) // mount --move may put an older mount on top of a newer one
	for _, m := range list {
		if below := t.byID[m.Parent]; below.Point == m.Point && below.ID != m.ID {
			covered[below.ID] = true
		}
	}
	for _, m := range list {
		if !covered[m.ID] {
			t.top[m.Point] = m
		}
	}
	return t
}

// isVisible reports whether the path of m, which is topmost at its point, leads to m: no other mount
// covers a directory on the way.
func (t *table) isVisible(m Mount) bool {
	for range maxDepth {
		lowest := m
		for t.byID[lowest.Parent].Point == m.Point && lowest.Parent != lowest.ID {
			lowest = t.byID[lowest.Parent]
		}
		above, found := t.topmostAbove(m.Point)
		if !found {
			return true
		}
		if above.ID != lowest.Parent {
			return false
		}
		m = above
	}
	return false
}

// isOnAutomount reports whether an automount is on the directory of m, which is topmost, beneath it.
func (t *table) isOnAutomount(m Mount) bool {
	for range maxDepth {
		below := t.byID[m.Parent]
		if below.Point != m.Point || below.ID == m.ID {
			return false
		}
		if below.IsAutomount {
			return true
		}
		m = below
	}
	return false
}

// maxDepth bounds the number of mounts on the way to a mount.
const maxDepth = 1000

// topmostAbove returns the mount that a process finds on the way to point, last.
func (t *table) topmostAbove(point string) (m Mount, found bool) {
	for point != "/" && point != "" && !found {
		point = point[:strings.LastIndexByte(point, '/')]
		if point == "" {
			m, found = t.top["/"]
			return m, found
		}
		m, found = t.top[point]
	}
	return m, found
}

// kernelKinds are the types of file systems that show the kernel's state, and of maps of automounts.
// They have no files to share.
var kernelKinds = []string{
	"autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "fusectl", "hugetlbfs",
	"mqueue", "nfsd", "nsfs", "proc", "pstore", "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
}

// HasFiles reports whether the mount's file system, or that of an automount, can have files to share,
// and is not one of the kernel's own.
func (m *Mount) HasFiles() bool { return m.IsAutomount || !slices.Contains(kernelKinds, m.Kind) }

// Points returns the directories of mounts.
func Points(list []Mount) (points []string) {
	for _, m := range list {
		points = append(points, m.Point)
	}
	return points
}

// Summary names the directories of mounts, and counts those after the first few.
func Summary(list []Mount) string {
	points := Points(list)
	if more := len(points) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(points[:maxNamed], ", "), more)
	}
	return strings.Join(points, ", ")
}

// maxNamed is how many mounts a Summary names.
const maxNamed = 4
