package fusefs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// hasSubmounts reports whether anything is mounted on a directory inside the mount,
// in any mount namespace that can be read. It also returns true if other users may
// have namespaces that cannot be read.
func (m *Mount) hasSubmounts() bool {
	any := false
	err := m.walkMountTables(func(points []string) bool {
		any = len(points) > 0
		return any
	})
	return any || err != nil && m.cfg.AllowOther
}

// deviceNumber returns the mount's device number in the form used in mount tables.
func (m *Mount) deviceNumber() []byte {
	st := m.dev.Load()
	return fmt.Appendf(nil, "%d:%d", unix.Major(st), unix.Minor(st))
}

// walkMountTables passes the mount points on the mount in each mount namespace to found,
// until found returns true. The error says that a namespace could not be read.
//
// The link of a process to its namespace would identify the namespace, but
// reading that link waits while the process executes another program, which a
// file system may delay. Therefore the first mount of a namespace identifies
// it.
func (m *Mount) walkMountTables(found func(points []string) bool) (err error) {
	dev := m.deviceNumber()
	seen := make(map[string]bool)
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		f, e := os.Open(p + "/mountinfo")
		if e != nil {
			if errors.Is(e, fs.ErrPermission) {
				err = e
			}
			continue // the process has exited
		}
		r := bufio.NewReader(f)
		first, e := r.ReadBytes('\n')
		if e != nil || seen[string(first)] {
			f.Close()
			continue
		}
		rest, e := io.ReadAll(r)
		f.Close()
		if e == nil {
			seen[string(first)] = true
			if found(parseMountPoints(append(first, rest...), dev)) {
				return err
			}
		}
	}
	return err
}

// parseMountPoints returns the paths in the file system of device dev on which a mount
// table (proc(5), mountinfo) has mounts.
func parseMountPoints(mounts, dev []byte) (points []string) {
	type mount struct{ root, point string }
	ours := make(map[string]mount)
	for line := range bytes.Lines(mounts) {
		if f := bytes.Fields(line); len(f) > 4 && bytes.Equal(f[2], dev) {
			ours[string(f[0])] = mount{unescapePath(f[3]), unescapePath(f[4])}
		}
	}
	for line := range bytes.Lines(mounts) {
		f := bytes.Fields(line)
		if len(f) <= 4 {
			continue
		}
		if on, is := ours[string(f[1])]; is {
			points = append(points, path.Join(on.root, strings.TrimPrefix(unescapePath(f[4]), on.point)))
		}
	}
	return points
}

// unescapePath decodes a path from a mount table, in which some characters are a
// backslash and three octal digits.
func unescapePath(field []byte) string {
	var b []byte
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if c, err := strconv.ParseUint(string(field[i+1:i+4]), 8, 8); err == nil {
				b = append(b, byte(c))
				i += 3
				continue
			}
		}
		b = append(b, field[i])
	}
	return string(b)
}

// isAt reports whether one of the paths leads to a name in dir.
func (t *nodeTable) isAt(dir *node, name string, paths []string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.ContainsFunc(paths, func(p string) bool {
		parent, last := path.Split(p)
		if last != name {
			return false
		}
		n := t.nodes[fuse.FUSE_ROOT_ID]
		for part := range strings.SplitSeq(strings.Trim(parent, "/"), "/") {
			if part == "" { // p is in the root
				break
			}
			d := n.directory.Load()
			if d == nil {
				return false
			}
			if n = d.names[part].node; n == nil {
				return false
			}
		}
		return n == dir
	})
}
