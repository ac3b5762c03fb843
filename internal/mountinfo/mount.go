package mountinfo

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Mount is a line of the list.
type Mount struct {
	ID     uint64 // as in statx(2)
	Parent uint64 // the ID of the mount below
	Device string // major and minor number, separated by a colon
	Point  string // the directory
	Kind   string // the file system type
	Source string // as given to mount(2)

	// IsAutomount reports an autofs mount that waits until a process uses its directory, and then has
	// the file system mounted on it: a direct one, such as systemd's.
	IsAutomount bool

	// IsTriggered reports a file system on such a mount. Only Below sets it.
	IsTriggered bool
}

// All returns the mounts that this process sees, the topmost on each directory
// last.
func All() ([]Mount, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("the mounts of this host cannot be read: %w", err)
	}
	var list []Mount
	for line := range strings.Lines(string(table)) {
		if m, ok := parseLine(line); ok {
			list = append(list, m)
		}
	}
	return list, nil
}

// At returns the topmost mount on a directory.
func At(point string) (m Mount, found bool, err error) {
	list, err := All()
	for _, one := range list {
		if one.Point == point {
			m, found = one, true
		}
	}
	return m, found, err
}

func parseLine(line string) (m Mount, ok bool) {
	before, after, _ := strings.Cut(line, " - ")
	fields, rest := strings.Split(before, " "), strings.Split(strings.TrimSuffix(after, "\n"), " ") // paths may have other white space
	if len(fields) < 5 || len(rest) < 2 {
		return m, false
	}
	id, err := strconv.ParseUint(fields[0], 10, 64)
	parent, _ := strconv.ParseUint(fields[1], 10, 64)
	m = Mount{ID: id, Parent: parent, Device: fields[2], Point: decodeOctal(fields[4]), Kind: rest[0], Source: decodeOctal(rest[1])}
	if m.Kind == "autofs" && len(rest) > 2 {
		options := strings.Split(rest[2], ",")
		m.IsAutomount = slices.Contains(options, "direct") || slices.Contains(options, "offset")
	}
	return m, err == nil
}

// decodeOctal replaces each \ooo with its byte.
func decodeOctal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
