package posix

import (
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// An entry is an entry returned by getdents.
type entry struct {
	name string
	ino  uint64
	kind byte
	next int64 // the position after it in the listing
}

// entries reads the next entries of an open directory: one call of getdents
// with room for size bytes, nothing at the end.
func (p *probe) entries(fd, size int) []entry {
	b := make([]byte, size)
	n, err := unix.Getdents(fd, b)
	p.need(err)
	var list []entry
	for b = b[:n]; len(b) > 0; {
		length := binary.NativeEndian.Uint16(b[16:])
		name, _, _ := strings.Cut(string(b[19:length]), "\x00")
		list = append(list, entry{
			name, binary.NativeEndian.Uint64(b), b[18],
			int64(binary.NativeEndian.Uint64(b[8:])),
		})
		b = b[length:]
	}
	return list
}

// all reads the rest of an open directory.
func (p *probe) all(fd int) []entry {
	var list []entry
	for {
		some := p.entries(fd, 4096)
		if len(some) == 0 {
			return list
		}
		list = append(list, some...)
	}
}

// sorted returns the names of entries, without "." and "..".
func sorted(list []entry) []string {
	var names []string
	for _, e := range list {
		if e.name != "." && e.name != ".." {
			names = append(names, e.name)
		}
	}
	slices.Sort(names)
	return names
}
